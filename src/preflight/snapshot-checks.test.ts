import { expect, it } from "vitest";
import type { SnapshotClusterFacts, VolumeClasses } from "./cluster-facts.ts";
import { checkSnapshots, checkVolumes } from "./snapshot-checks.ts";

const now = new Date("2030-01-02T00:00:00Z");
const crd = { stored: ["v1"], conversionService: undefined, hasService: false };
const groups = { ...crd, name: "volumegroupsnapshots.groupsnapshot.storage.k8s.io" };
const pod = { name: "kube-system/c", version: "v8.7.0", restarts: 0, lastEnd: undefined };
const record = {
  name: "c",
  driver: "csi.example",
  deletionPolicy: "Retain",
  handle: "s-1",
  createdAt: "2030-01-01T00:00:00Z",
  isOrphan: false,
};
const good: SnapshotClusterFacts = {
  crds: { value: [{ ...crd, name: "volumesnapshots.snapshot.storage.k8s.io" }] },
  controllers: { value: [pod] },
  contents: { value: [record] },
  quotas: { value: [{ quota: "q", resource: "requests.storage", hard: "10Gi", used: "9Gi" }] },
  stored: undefined,
};
const findings = (snapshots: Partial<SnapshotClusterFacts> = {}) =>
  checkSnapshots({ now, namespace: "t", snapshots: { ...good, ...snapshots } });
const containing = (text: string) => expect.stringContaining(text) as string;

it("finds nothing in a good cluster, and has no check without VolumeSnapshots", () => {
  expect(findings().map(({ level }) => level)).toEqual(["ok", "ok", "ok", "ok"]);
  expect(findings({ crds: { value: [] } })).toEqual([]);
});

it.each<[string, Partial<SnapshotClusterFacts>, object]>([
  [
    "snapshot-crds",
    { crds: { value: [{ ...groups, stored: ["v1alpha1"] }] } },
    { message: containing("stored as v1alpha1") },
  ],
  [
    "snapshot-crds",
    { crds: { value: [{ ...groups, conversionService: { namespace: "ns", name: "s" } }] } },
    { message: containing("calls the service ns/s") },
  ],
  [
    "snapshot-controller",
    { controllers: { value: [{ ...pod, version: "v8.0.1", restarts: 9, lastEnd: "OOMKilled" }] } },
    { message: containing("because of OOMKilled"), action: containing("8.2 or later") },
  ],
  [
    "snapshot-controller",
    { contents: { value: Array.from({ length: 10_001 }, () => record) } },
    { message: containing("10001"), action: containing("Give it more memory") },
  ],
  [
    "snapshot-contents",
    { contents: { value: [{ ...record, isOrphan: true }] } },
    { message: containing("c (csi.example s-1, Retain, 1 days old)") },
  ],
  [
    "snapshot-quota",
    { quotas: { value: [{ quota: "q", resource: "requests.storage", hard: "1Gi", used: "1024Mi" }] } },
    { message: containing("q (requests.storage: 1024Mi of 1Gi)") },
  ],
  [
    "snapshot-leaks",
    {
      stored: [
        { handle: "s-1", createdAt: undefined },
        { handle: "s-2", createdAt: undefined },
      ],
    },
    { message: containing("1 of the 2 snapshots of the list: s-2") },
  ],
])("warns with %s", (check, snapshots, found) => {
  expect(findings(snapshots).find((one) => one.check === check)).toMatchObject({ level: "warning", ...found });
});

it("counts an upgrade with a working webhook and a snapshot of this hour as good", () => {
  expect(
    findings({
      crds: { value: [{ ...groups, conversionService: { namespace: "ns", name: "s" }, hasService: true }] },
    })[0],
  ).toMatchObject({
    level: "ok",
  });
  const stored = [{ handle: "s-2", createdAt: "2030-01-01T23:30:00Z" }];
  expect(findings({ stored }).at(-1)).toMatchObject({ check: "snapshot-leaks", level: "ok" });
});

it("is unknown if it could not be read or nothing is visible", () => {
  const unknown = { unknown: "you are not allowed to read x" };
  const all = findings({ crds: unknown, controllers: unknown, contents: unknown, quotas: unknown, stored: [] });
  expect(all.map(({ level }) => level)).toEqual(["unknown", "unknown", "unknown", "unknown", "unknown"]);
  expect(findings({ controllers: { value: [] } })[1]).toMatchObject({ level: "unknown" });
});

const volumeClass = (name: string, isDefault: boolean, driver = "csi.example") => ({ name, isDefault, driver });
const found = (value: VolumeClasses) => checkVolumes({ volumeClasses: { value } });

it("names what claims without a class get, and whether snapshots can be taken", () => {
  const storage = [volumeClass("fast", false), volumeClass("usual", true)];
  expect(found({ storage, snapshots: [volumeClass("keep", false)] })).toEqual({
    check: "volumes",
    level: "ok",
    message: "Claims without a class get the StorageClass usual; VolumeSnapshots have classes of csi.example",
  });
  expect(found({ storage: [volumeClass("fast", false)], snapshots: [] }).message).toBe(
    "Claims must name one of the StorageClasses fast; no driver has a VolumeSnapshotClass",
  );
  expect(found({ storage: [], snapshots: undefined }).message).toBe(
    "The cluster has no StorageClass; it has no VolumeSnapshots",
  );
});

it("warns about two default classes, of snapshots only if they are of one driver", () => {
  const two = [volumeClass("a", true), volumeClass("b", true)];
  expect(found({ storage: two, snapshots: [] })).toMatchObject({
    level: "warning",
    message: "Claims without a class get any of several default StorageClasses: a, b",
  });
  expect(found({ storage: [], snapshots: two })).toMatchObject({
    level: "warning",
    action:
      "Let one be the default: kubectl annotate volumesnapshotclass NAME snapshot.storage.kubernetes.io/is-default-class-",
  });
  expect(found({ storage: [], snapshots: [volumeClass("a", true), volumeClass("b", true, "other")] }).level).toBe("ok");
});

it("is unknown if the classes cannot be read", () => {
  const volumeClasses = { unknown: "you are not allowed to read the classes of volumes" };
  expect(checkVolumes({ volumeClasses })).toMatchObject({ level: "unknown" });
});
