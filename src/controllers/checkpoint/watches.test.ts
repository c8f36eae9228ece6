import { expect, it } from "vitest";
import { Checkpoint } from "../../api/kinds/checkpoint.ts";
import { Sandbox } from "../../api/kinds/sandbox.ts";
import type { Change } from "../../kube/store.ts";
import { disruptionCheckpointName } from "../cluster/pause-checkpoint.ts";
import { checkpointWatches } from "./controller.ts";
import type { CheckpointDependencies } from "./state.ts";

const time = "2030-01-01T00:00:00Z";
const apiVersion = "agents.kruise.io/v1alpha1";
const meta = (name: string, more: object = {}) => {
  const own = { name, namespace: "t", uid: `uid-${name}`, resourceVersion: "1", creationTimestamp: time };
  return { ...own, ...more };
};
const sandbox = (outcome: string): Sandbox => {
  const disruption = { cause: "Evicted", at: time, outcome, podUID: "pod" };
  const status = { phase: "Running", podInfo: { podUID: "pod" }, ramet: { disruption } };
  return Sandbox.parse({ apiVersion, kind: "Sandbox", metadata: meta("a"), spec: {}, status });
};
const finished = (name: string, more: object = {}): Checkpoint => {
  const status = { phase: "Failed" };
  return Checkpoint.parse({
    apiVersion,
    kind: "Checkpoint",
    metadata: meta(name, more),
    spec: { sandboxName: "a" },
    status,
  });
};

/** The keys that a change of the sandbox enqueues, with these Checkpoints of it. */
function enqueuedBy(changed: Sandbox, checkpoints: readonly Checkpoint[]): string[] {
  const keys: string[] = [];
  let emit: (change: Change<Sandbox>) => void = () => undefined;
  const unused = { onChange: () => () => undefined };
  const sandboxes = {
    onChange: (listener: typeof emit) => {
      emit = listener;
      return () => undefined;
    },
  };
  const watches = checkpointWatches({
    informers: { checkpoints: unused, pods: unused, sandboxes },
    cache: { sandbox: () => changed, checkpointsOf: () => checkpoints },
  } as unknown as CheckpointDependencies);
  for (const watch of watches) watch.start((key) => keys.push(key));
  emit({ type: "updated", object: changed, previous: changed });
  return keys;
}

it("continues the removal of a failed checkpoint when the next capture of the disruption needs its name", () => {
  const deletionTimestamp = time;
  const name = disruptionCheckpointName(sandbox("Migrating"));
  const holding = finished(name, { deletionTimestamp });
  expect(enqueuedBy(sandbox("Migrating"), [holding])).toEqual([`t/${name}`]);
  // Nothing waits for it.
  expect(enqueuedBy(sandbox("Withdrawn"), [holding])).toEqual([]);
  expect(enqueuedBy(sandbox("Migrating"), [finished("other", { deletionTimestamp }), finished(name)])).toEqual([]);
});
