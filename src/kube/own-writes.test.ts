import { describe, expect, it } from "vitest";
import type { KubeObject } from "./object.ts";
import { ObjectStore } from "./store.ts";
import { OwnWrites } from "./informer.ts";

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
  it("returns the written version until the informer has it", async () => {
    const { store, writes } = open();
    const [one, two, three] = [version("1"), version("2"), version("3")];
    store.put(one);
    await writes.write(one, () => Promise.resolve(two));
    expect(writes.latest(one)).toBe(two);
    store.put(version("2"));
    store.put(three);
    expect(writes.latest(three)).toBe(three);
  });

  it("drops a written version that the informer had before the response arrived", async () => {
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

  it("ignores a response without a change, even if the object has changed since", async () => {
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

  it("prefers a list with another version, because the informer may never get the written one", async () => {
    const { store, writes } = open();
    const [one, three] = [version("1"), version("3")];
    store.put(one);
    await writes.write(one, () => Promise.resolve(version("2")));
    const reported: KubeObject[] = [];
    store.subscribe(({ object }) => reported.push(writes.latest(object)));
    store.replace([three], true);
    expect(reported).toEqual([three]);
    expect(writes.latest(three)).toBe(three);
  });

  it("ignores a response that arrives after such a list", async () => {
    const { store, writes } = open();
    const [one, three] = [version("1"), version("3")];
    store.put(one);
    await writes.write(one, () => {
      store.replace([three], true);
      return Promise.resolve(version("2"));
    });
    expect(writes.latest(three)).toBe(three);
  });

  it("ignores a response with a version that the informer had before the write", async () => {
    const { store, writes } = open();
    const [one, two, three] = [version("1"), version("2"), version("3")];
    store.put(two);
    await writes.write(one, () => {
      store.put(three);
      return Promise.resolve(version("2"));
    });
    expect(writes.latest(three)).toBe(three);
  });

  it("remembers the version that was read again until another one arrives or the object is deleted", () => {
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
