import { expect, it } from "vitest";
import { ManualClock } from "../../../test/setup/manual-clock.ts";
import { Checkpoint } from "../../api/kinds/checkpoint.ts";
import type { CheckpointRecord } from "../../backends/checkpoint-record.ts";
import { RametError } from "../../base/errors.ts";
import { Captures } from "./captures.ts";

const flush = () => new Promise((resolve) => setImmediate(resolve));

function checkpoint(uid: string): Checkpoint {
  return Checkpoint.parse({
    apiVersion: "agents.kruise.io/v1alpha1",
    kind: "Checkpoint",
    metadata: { name: uid, namespace: "n", uid, resourceVersion: "1", creationTimestamp: "2026-01-01T00:00:00Z" },
    spec: { sandboxName: "a" },
  });
}

function open() {
  const clock = new ManualClock();
  const requeued: string[] = [];
  const captures = new Captures({ clock, random: () => 0.5, enqueue: (key) => requeued.push(key) });
  return { clock, requeued, captures };
}

it("frees the Pod when its capture has ended, and keeps the outcome until the checkpoint is forgotten", async () => {
  const { captures, requeued } = open();
  const [one, two] = [checkpoint("one"), checkpoint("two")];
  const ended = Promise.withResolvers<CheckpointRecord>();
  captures.occupy(one, { podUid: "p" });
  captures.start(one, () => ended.promise);
  expect(captures.ofPod("p")).toBe("one");
  ended.reject(new RametError("StoreFull", "no room"));
  await flush();
  expect([captures.ofPod("p"), captures.get("one")?.state, requeued]).toEqual([undefined, "failed", ["n/one"]]);
  captures.occupy(two, { podUid: "p" });
  captures.forget(one);
  expect([captures.get("one"), captures.ofPod("p")]).toEqual([undefined, "two"]);
});

it("leaves nothing of a forgotten checkpoint: no Pod, no shared data and no repeat", async () => {
  const { captures, clock, requeued } = open();
  const [one, two] = [checkpoint("one"), checkpoint("two")];
  captures.occupy(one, { podUid: "p" });
  captures.occupy(two, { data: "n/c-1" });
  captures.start(one, () => Promise.reject(new RametError("Unavailable", "connection refused", { retryable: true })));
  await flush();
  expect([captures.shares("n/c-1", "one"), captures.shares("n/c-1", "two")]).toEqual([true, false]);
  captures.forget(one);
  captures.forget(two);
  expect([captures.ofPod("p"), captures.shares("n/c-1", "one"), captures.get("one")]).toEqual([
    undefined,
    false,
    undefined,
  ]);
  expect([clock.waits, requeued]).toEqual([[], ["n/one"]]);
});
