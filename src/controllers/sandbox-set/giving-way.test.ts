import { expect, it } from "vitest";
import { annotations, labels } from "../../api/names/labels.ts";
import { Sandbox } from "../../api/kinds/sandbox.ts";
import { givesWayMilliseconds, reconcileDelayMilliseconds, setOfClone } from "./rollout-bounds.ts";

function clone(claimedAt: Date): Sandbox {
  return Sandbox.parse({
    apiVersion: "agents.kruise.io/v1alpha1",
    kind: "Sandbox",
    spec: {},
    metadata: {
      name: "s",
      namespace: "n",
      uid: "u",
      resourceVersion: "1",
      creationTimestamp: claimedAt.toISOString(),
      labels: { [labels.sandboxPool]: "set" },
      annotations: { [annotations.claimTimestamp]: claimedAt.toISOString(), [annotations.rollbackTo]: "c-1" },
    },
  });
}

const claimedAt = new Date(10_000);
const later = (milliseconds: number): Date => new Date(claimedAt.getTime() + milliseconds);

/** The sandbox when its clone responds, or when no clone was requested. */
function settled(sandbox: Sandbox): Sandbox {
  const { [annotations.rollbackTo]: _, ...rest } = sandbox.metadata.annotations ?? {};
  return { ...sandbox, metadata: { ...sandbox.metadata, annotations: rest } };
}

it("gives way to clones that do not respond yet, and never for longer than a second", () => {
  const one = clone(claimedAt);
  expect(givesWayMilliseconds([], claimedAt)).toBe(0);
  expect(givesWayMilliseconds([one], claimedAt)).toBe(1_000);
  expect(givesWayMilliseconds([clone(later(-500)), one], later(150))).toBe(850);
  expect(givesWayMilliseconds([settled(one)], later(150))).toBe(0);
  expect(givesWayMilliseconds([one], later(1_000))).toBe(0);
  expect(setOfClone(one, claimedAt)).toEqual(["n/set"]);
  expect(setOfClone(one, later(1_000))).toEqual([]);
});

it("reconciles shortly after the clone responds, and immediately if there is no clone", () => {
  const one = clone(claimedAt);
  const change = (previous: Sandbox, object: Sandbox) => ({ type: "updated", previous, object }) as const;
  expect(reconcileDelayMilliseconds(change(settled(one), one), later(100))).toBe(900);
  expect(reconcileDelayMilliseconds(change(one, settled(one)), later(150))).toBe(100);
  expect(reconcileDelayMilliseconds(change(one, settled(one)), later(1_000))).toBe(0);
  expect(reconcileDelayMilliseconds(change(settled(one), settled(one)), later(150))).toBe(0);
  expect(reconcileDelayMilliseconds({ type: "added", object: settled(one) }, later(150))).toBe(0);
  expect(reconcileDelayMilliseconds({ type: "deleted", object: settled(one) }, later(150))).toBe(0);
});
