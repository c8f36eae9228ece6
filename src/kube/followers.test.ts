import { expect, it } from "vitest";
import { ManualClock } from "../../test/setup/manual-clock.ts";
import { ObjectStore } from "./store.ts";
import { Followers } from "./followers.ts";

function world() {
  const store = new ObjectStore<{ metadata: { name: string; uid: string; resourceVersion: string } }>(() => undefined);
  const clock = new ManualClock();
  const followers = new Followers(store, clock);
  const put = (version: number) => {
    store.put({ metadata: { name: "a", uid: "u", resourceVersion: String(version) } });
  };
  const until = (version: number, signal = new AbortController().signal) =>
    followers.until("u", (object) => (object?.metadata.resourceVersion === String(version) ? version : undefined), {
      what: "Waiting",
      timeoutMilliseconds: 1000,
      signal,
    });
  return { store, clock, followers, put, until };
}

it("resolves for the current version and for a later one", async () => {
  const { put, until } = world();
  put(1);
  await expect(until(1)).resolves.toBe(1);
  const later = until(3);
  put(2);
  put(3);
  await expect(later).resolves.toBe(3);
});

it("waits for an object that the informer does not know yet, and notices its deletion", async () => {
  const { store, put, followers, until } = world();
  const first = until(1);
  put(1);
  await first;
  const gone = followers.until("u", (object) => (object === undefined ? true : undefined), {
    what: "Deleting",
    timeoutMilliseconds: 1000,
    signal: new AbortController().signal,
  });
  const [object] = store.list();
  if (object !== undefined) store.remove(object, true);
  await expect(gone).resolves.toBe(true);
});

it("ends a wait at its time limit, when its caller leaves, and when its condition throws", async () => {
  const { clock, followers, put, until } = world();
  const late = until(9);
  clock.advance(1000);
  await expect(late).rejects.toThrow("Waiting timed out after 1 s");
  const left = new AbortController();
  const leaving = until(9, left.signal);
  left.abort();
  await expect(leaving).rejects.toThrow("canceled");
  const failing = followers.until(
    "u",
    (object) => {
      if (object !== undefined) throw new Error("it failed");
      return undefined;
    },
    { what: "Waiting", timeoutMilliseconds: 1000, signal: new AbortController().signal },
  );
  put(1);
  await expect(failing).rejects.toThrow("it failed");
});
