import { expect, it } from "vitest";
import { ManualClock } from "../../../test/setup/manual-clock.ts";
import { Sandbox } from "../../api/kinds/sandbox.ts";
import { apiVersion } from "../../api/schema/kind.ts";
import { Followers } from "../../kube/followers.ts";
import { ObjectStore } from "../../kube/store.ts";
import { untilKnown } from "./cache-lag.ts";

const sandbox = Sandbox.parse({
  apiVersion,
  kind: "Sandbox",
  metadata: { name: "a", namespace: "t", uid: "1", resourceVersion: "1", creationTimestamp: "2030-01-01T00:00:00Z" },
  spec: { template: { spec: { containers: [{ name: "main", image: "python" }] } } },
});

it("answers a creation after the given time, while the watch is broken", async () => {
  const clock = new ManualClock();
  const sandboxes = new Followers(new ObjectStore<Sandbox>(() => undefined), clock);
  const answered = untilKnown(sandboxes, sandbox, new AbortController().signal, 500);
  let isAnswered = false;
  void answered.then(() => {
    isAnswered = true;
  });
  clock.advance(499);
  await new Promise(setImmediate);
  expect(isAnswered).toBe(false);
  clock.advance(1);
  expect(await answered).toBe(sandbox);
  sandboxes.close();
});

it("answers a creation when lists have the sandbox, also if the watch lags behind", async () => {
  const clock = new ManualClock();
  const store = new ObjectStore<Sandbox>(() => undefined);
  const sandboxes = new Followers(store, clock);
  let listed: Sandbox | undefined;
  const answered = untilKnown(sandboxes, sandbox, new AbortController().signal).then(() => {
    listed = store.get("t/a");
  });
  clock.advance(2_000);
  await new Promise(setImmediate);
  store.put(sandbox);
  await answered;
  expect(listed).toEqual(sandbox);
  sandboxes.close();
});
