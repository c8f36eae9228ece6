import { expect, it } from "vitest";
import type { SnapshotClass } from "../../kube/volumes/snapshots.ts";
import { checkpointClass, groupClass } from "./snapshot-class.ts";

const driver = "ebs.csi.aws.com";
const isDefault = { "snapshot.storage.kubernetes.io/is-default-class": "true" };

function snapshotClass(name: string, { policy = "Delete", of = driver, annotations = {} } = {}): SnapshotClass {
  return { metadata: { name, uid: name, resourceVersion: "1", annotations }, driver: of, deletionPolicy: policy };
}

it("prefers the class for checkpoints, then one that keeps data, then the default, then the only one", () => {
  const only = snapshotClass("a");
  const preferred = snapshotClass("b", { annotations: isDefault });
  const keeping = snapshotClass("c", { policy: "Retain" });
  const ours = snapshotClass("ebs-csi-aws-com-checkpoint-retain", { policy: "Retain" });
  const other = snapshotClass("d", { of: "other", policy: "Retain", annotations: isDefault });
  expect(checkpointClass(driver, [only, other])).toBe("a");
  expect(checkpointClass(driver, [only, preferred, other])).toBe("b");
  expect(checkpointClass(driver, [only, preferred, keeping, other])).toBe("c");
  expect(checkpointClass(driver, [only, preferred, keeping, ours, other])).toBe(ours.metadata.name);
});

it("names the classes of which none is preferred, and reports a driver without a class", () => {
  const problemOf = (classes: readonly SnapshotClass[]) => () => checkpointClass(driver, classes);
  expect(problemOf([snapshotClass("a"), snapshotClass("b")])).toThrow("several VolumeSnapshotClasses: a, b");
  expect(problemOf([snapshotClass("a", { of: "other" })])).toThrow(
    `The CSI driver ${driver} has no VolumeSnapshotClass`,
  );
});

it("chooses the class of a group by the same rules, and says why there is none", () => {
  const isDefaultGroup = { "groupsnapshot.storage.kubernetes.io/is-default-class": "true" };
  const [a, b] = [snapshotClass("a", { annotations: isDefault }), snapshotClass("b", { annotations: isDefaultGroup })];
  expect(groupClass(driver, [a, b])).toEqual({ name: "b" });
  expect(groupClass(driver, [a])).toEqual({ name: "a" });
  expect(groupClass(driver, [a, snapshotClass("c")])).toEqual({
    problem: "the driver has several VolumeGroupSnapshotClasses: a, c",
  });
  expect(groupClass(driver, [])).toEqual({ problem: "the driver has no VolumeGroupSnapshotClass" });
});
