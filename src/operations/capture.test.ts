import { expect, it } from "vitest";
import { ManualClock } from "../../test/setup/manual-clock.ts";
import { Checkpoint } from "../api/kinds/checkpoint.ts";
import { Followers } from "../kube/followers.ts";
import { ObjectStore } from "../kube/store.ts";
import { untilCaptured } from "./capture.ts";
import type { Following } from "./objects.ts";

const time = "2030-01-01T00:00:00Z";

/** A checkpoint in the cache of a server, and a wait of 60 s for it. */
function scene() {
  const clock = new ManualClock();
  const store = new ObjectStore<Checkpoint>(() => undefined);
  const followers = new Followers(store, clock);
  let version = 0;
  const put = (phase: string, reason = ""): Checkpoint => {
    version += 1;
    const condition = {
      type: "Ready",
      status: "False",
      reason,
      message: "",
      lastTransitionTime: time,
    };
    const checkpoint = Checkpoint.parse({
      apiVersion: "agents.kruise.io/v1alpha1",
      kind: "Checkpoint",
      metadata: { name: "c", namespace: "t", uid: "u", resourceVersion: String(version), creationTimestamp: time },
      spec: { sandboxName: "a" },
      status: { phase, ...(reason !== "" && { conditions: [condition] }) },
    });
    store.put(checkpoint);
    return checkpoint;
  };
  const follow = <R>({ metadata }: Checkpoint, { until, ...following }: Following<Checkpoint, R>): Promise<R> => {
    const startedAt = clock.monotonicMilliseconds();
    const since = () => clock.monotonicMilliseconds() - startedAt;
    return followers.until(metadata.uid, (current) => until(current, since()), following);
  };
  const wait = { timeoutMilliseconds: 60_000, signal: new AbortController().signal };
  const ended = untilCaptured({ checkpoints: { follow } }, put("Pending"), wait);
  /** Lets the wait notice that its time is over. */
  const pass = async (seconds: number): Promise<void> => {
    clock.advance(seconds * 1000);
    await new Promise(setImmediate);
  };
  return { put, ended, pass };
}

it("does not count the time in which the cluster prepares what captures volumes", async () => {
  const { put, ended, pass } = scene();
  await pass(10);
  put("Pending", "Preparing");
  await pass(50);
  await pass(600);
  put("Creating");
  await pass(45);
  put("Succeeded");
  await expect(ended).resolves.toHaveProperty("object.status.phase", "Succeeded");
});

it.each(["Waiting", "PreparationFailed"])(
  "counts the time in which it is %s, and that of the capture",
  async (reason) => {
    const { put, ended, pass } = scene();
    put("Pending", "Preparing");
    await pass(50);
    put("Pending", reason);
    await pass(10);
    const failed = expect(ended).rejects.toThrow("timed out");
    await pass(50);
    await failed;
  },
);
