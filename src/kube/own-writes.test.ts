import { describe, expect, it } from "vitest";
import { ManualClock } from "../../test/contract/kube/manual-clock.ts";
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
  const clock = new ManualClock();
  return { store, clock, writes: new OwnWrites({ store }, clock) };
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

  it("gives up on a version that the informer never shows", async () => {
    const { store, clock, writes } = open();
    const one = version("1");
    store.put(one);
    await writes.write(one, () => Promise.resolve(version("2")));
    clock.advance(6_000);
    expect(writes.latest(one)).toBe(one);
  });
});
