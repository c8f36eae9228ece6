import { describe, expect, it } from "vitest";
import type { KubeObject } from "./object.ts";
import { ObjectStore } from "./store.ts";
import { OwnWrites } from "./own-writes.ts";

const version = (resourceVersion: string): KubeObject => ({
  metadata: { namespace: "t", name: "a", uid: "u", resourceVersion },
});

function open() {
  const store = new ObjectStore<KubeObject>((error) => {
    throw error;
  });
  return { store, writes: new OwnWrites({ store }) };
}

describe("OwnWrites", () => {
  it("takes what was written for the latest until the informer shows it", async () => {
    const { store, writes } = open();
    const [one, two, three] = [version("1"), version("2"), version("3")];
    store.put(one);
    await writes.write(one, () => Promise.resolve(two));
    expect(writes.latest(one)).toBe(two);
    store.put(version("2"));
    store.put(three);
    expect(writes.latest(three)).toBe(three);
  });

  it("keeps nothing that the informer showed before the answer came", async () => {
    const { store, writes } = open();
    const [one, three] = [version("1"), version("3")];
    store.put(one);
    await writes.write(one, () => {
      store.put(version("2"));
      store.put(three);
      return Promise.resolve(version("2"));
    });
    expect(writes.latest(three)).toBe(three);
  });

  it("takes an answer to nothing written for no news, though the object has moved on", async () => {
    const { store, writes } = open();
    const [one, two, three] = [version("1"), version("2"), version("3")];
    store.put(one);
    store.put(three);
    await writes.write(one, () => Promise.resolve(one));
    expect(writes.latest(three)).toBe(three);
    store.put(two);
    await writes.write(one, () => Promise.resolve(two));
    store.put(three);
    await writes.write(one, () => Promise.resolve(two));
    expect(writes.latest(three)).toBe(three);
  });

  it("takes a list that shows another version for the newer: its own may never be shown", async () => {
    const { store, writes } = open();
    const [one, three] = [version("1"), version("3")];
    store.put(one);
    await writes.write(one, () => Promise.resolve(version("2")));
    const told: KubeObject[] = [];
    store.subscribe(({ object }) => told.push(writes.latest(object)));
    store.replace([three], true);
    expect(told).toEqual([three]);
    expect(writes.latest(three)).toBe(three);
  });

  it("remembers no answer that came after such a list", async () => {
    const { store, writes } = open();
    const [one, three] = [version("1"), version("3")];
    store.put(one);
    await writes.write(one, () => {
      store.replace([three], true);
      return Promise.resolve(version("2"));
    });
    expect(writes.latest(three)).toBe(three);
  });

  it("takes an answer that the informer had shown before the write for no news", async () => {
    const { store, writes } = open();
    const [one, two, three] = [version("1"), version("2"), version("3")];
    store.put(two);
    await writes.write(one, () => {
      store.put(three);
      return Promise.resolve(version("2"));
    });
    expect(writes.latest(three)).toBe(three);
  });

  it("knows the version that was looked at again, until there is another or the object goes", () => {
    const { store, writes } = open();
    const [one, two] = [version("1"), version("2")];
    writes.settle(two);
    expect(writes.isSettled(two)).toBe(false);
    store.put(one);
    writes.settle(two);
    expect([one, two, version("3")].map((each) => writes.isSettled(each))).toEqual([false, true, false]);
    store.remove(two, true);
    expect(writes.isSettled(two)).toBe(false);
  });
});
