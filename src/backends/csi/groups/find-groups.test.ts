import { expect, it } from "vitest";
import { GroupSnapshot } from "../../../kube/volumes/snapshots.ts";
import { checkpointOfSnapshot } from "../captured-volume.ts";
import { groupManifest, groupName, groupRecord, selectorOf } from "./find-groups.ts";

const name = { namespace: "a", checkpointId: "c-1" };
const volume = { volume: "data", claim: "data-s", claimUid: "u", driver: "d", accessModes: ["ReadWriteOnce"] };
const record = { driver: "d", volumes: [volume, { ...volume, claim: "logs-s" }], ofVolumes: 3 };
const manifest = groupManifest(name, { ...record, apiVersion: "groupsnapshot.storage.k8s.io/v1", className: "class" });
const group = (metadata: object = {}) =>
  GroupSnapshot.parse({ ...manifest, metadata: { ...manifest.metadata, uid: "v", resourceVersion: "1", ...metadata } });

it("reads what it has recorded in a VolumeGroupSnapshot", () => {
  expect(groupRecord(name, group())).toEqual(record);
  expect(checkpointOfSnapshot(groupName(name, "d"))).toBe("c-1");
  expect(manifest.metadata).not.toHaveProperty("ownerReferences");
});

it("ignores VolumeGroupSnapshots of others, and those that somebody has changed", () => {
  expect(groupRecord({ ...name, checkpointId: "c-2" }, group())).toBeUndefined();
  expect(groupRecord(name, group({ name: "mine" }))).toBeUndefined();
  for (const text of ["", "[]", JSON.stringify({ ...record, driver: "other" })])
    expect(groupRecord(name, group({ annotations: { "ramet.dev/captured-volume": text } }))).toBeUndefined();
});

it("selects the claims of one checkpoint and one driver", () => {
  const others = [selectorOf({ ...name, checkpointId: "c-2" }, "d"), selectorOf(name, "other")];
  for (const other of others) expect(selectorOf(name, "d")).not.toEqual(other);
});
