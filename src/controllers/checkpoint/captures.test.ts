import { expect, it } from "vitest";
import { ManualClock } from "../../../test/setup/manual-clock.ts";
import { Checkpoint } from "../../api/kinds/checkpoint.ts";
import { Sandbox } from "../../api/kinds/sandbox.ts";
import { Pod } from "../../api/schema/pod.ts";
import type { CheckpointRecord } from "../../backends/checkpoint-record.ts";
import { RametError } from "../../base/errors.ts";
import { ObjectStore } from "../../kube/store.ts";
import { disruptionCheckpointName } from "../cluster/pause-checkpoint.ts";
import { CaptureTurns, Captures } from "./captures.ts";

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

const start = Date.parse("2030-01-01T00:00:00Z");
const after = (seconds: number) => new Date(start + seconds * 1000);
const metadata = (name: string, more: object = {}) => ({
  name,
  namespace: "t",
  uid: `uid-${name}`,
  resourceVersion: "1",
  creationTimestamp: after(0).toISOString(),
  ...more,
});

/** Sandboxes of one node whose Pods are ended at the same time, with these grace periods. */
function world(graces: Record<string, number>) {
  const checkpoints = new ObjectStore<Checkpoint>((error) => {
    throw error;
  });
  const [sandboxes, pods] = [new Map<string, Sandbox>(), new Map<string, Pod>()];
  const capturing = new Map<string, string>();
  const turns = new CaptureTurns({
    informers: { checkpoints: { store: checkpoints } } as never,
    cache: { sandbox: (key: string) => sandboxes.get(key), pod: (key: string) => pods.get(key) } as never,
    captures: { ofPod: (uid) => capturing.get(uid) },
    atOnce: 2,
  });
  const own = new Map<string, Checkpoint>();
  for (const [name, grace] of Object.entries(graces)) {
    const sandbox = Sandbox.parse({
      apiVersion: "agents.kruise.io/v1alpha1",
      kind: "Sandbox",
      metadata: metadata(name),
      spec: {},
      status: { podInfo: { podUID: `pod-${name}` } },
    });
    const ending = { deletionTimestamp: after(grace).toISOString(), deletionGracePeriodSeconds: grace };
    const spec = { nodeName: "n", containers: [{ name: "main", image: "cell" }] };
    sandboxes.set(`t/${name}`, sandbox);
    pods.set(`t/${name}`, Pod.parse({ metadata: metadata(name, { uid: `pod-${name}`, ...ending }), spec }));
    const checkpoint = Checkpoint.parse({
      apiVersion: "agents.kruise.io/v1alpha1",
      kind: "Checkpoint",
      metadata: metadata(disruptionCheckpointName(sandbox), { labels: { "ramet.dev/purpose": "pause" } }),
      spec: { sandboxName: name },
    });
    own.set(name, checkpoint);
    checkpoints.put(checkpoint);
  }
  const wait = (name: string, seconds: number) => turns.waitMilliseconds(own.get(name)!, after(seconds));
  return {
    turns,
    wait,
    own,
    begin: (name: string) => capturing.set(`pod-${name}`, own.get(name)!.metadata.uid),
    end: (name: string) => {
      capturing.delete(`pod-${name}`);
      checkpoints.remove(own.get(name)!, true);
    },
  };
}

it("lets a sandbox wait for others of its node, and begin when one of them is captured", () => {
  const { turns, wait, own, begin, end } = world({ a: 30, b: 30, c: 30 });
  for (const name of ["a", "b"]) {
    expect(wait(name, 0)).toBeUndefined();
    begin(name);
  }
  expect(wait("c", 1)).toBe(5_000);
  expect(turns.next(after(1))).toEqual([]);
  end("a");
  expect(turns.next(after(2))).toEqual([`t/${own.get("c")?.metadata.name}`]);
  expect(wait("c", 2)).toBeUndefined();
});

it("lets no sandbox wait longer than half of the time for which its end is held", () => {
  const { wait, begin } = world({ a: 30, b: 30, patient: 30, short: 12, forced: 0 });
  for (const name of ["a", "b"]) begin(name);
  // Of 12 s, the cell holds 5.
  expect(wait("short", 1)).toBe(1_500);
  expect(wait("short", 2.5)).toBeUndefined();
  expect(wait("forced", 0)).toBeUndefined();
  // Of 30 s, it holds 19.
  expect(wait("patient", 9)).toBe(500);
  expect(wait("patient", 9.5)).toBeUndefined();
});

it("lets nobody wait for captures of a silent node whose time has passed", () => {
  const { wait, begin } = world({ a: 12, b: 12, c: 30 });
  for (const name of ["a", "b"]) begin(name);
  expect(wait("c", 5.5)).toBeUndefined();
});
