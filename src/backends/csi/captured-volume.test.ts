import fc from "fast-check";
import { expect, it } from "vitest";
import { Snapshot } from "../../kube/volumes/snapshots.ts";
import {
  capturedVolume,
  checkpointOfSnapshot,
  hasRequestedName,
  numberOfVolumes,
  snapshotManifest,
  snapshotName,
} from "./captured-volume.ts";

const name = { namespace: "a", checkpointId: "c-1" };
const volume = { volume: "data", claim: "data-s", driver: "d", accessModes: ["ReadWriteOnce"] };
const manifest = snapshotManifest(name, { ...volume, claimUid: "u", ofVolumes: 2 }, "class");
const snapshot = (changes: { metadata?: object; spec?: object } = {}) =>
  Snapshot.parse({
    ...manifest,
    ...changes,
    metadata: { ...manifest.metadata, uid: "v", resourceVersion: "1", ...changes.metadata },
  });

it("reads what it has recorded in a VolumeSnapshot", () => {
  expect(capturedVolume(name, snapshot())).toEqual({ ...volume, snapshot: snapshotName(name, volume.claim) });
  expect(numberOfVolumes(snapshot())).toBe(2);
  expect(manifest.metadata).not.toHaveProperty("ownerReferences");
});

it("ignores VolumeSnapshots of others, and those that somebody has changed", () => {
  expect(capturedVolume({ ...name, checkpointId: "c-2" }, snapshot())).toBeUndefined();
  expect(capturedVolume(name, snapshot({ metadata: { name: "mine" } }))).toBeUndefined();
  for (const text of ["", "no JSON", "{}"])
    expect(capturedVolume(name, snapshot({ metadata: { annotations: { "ramet.dev/captured-volume": text } } }))).toBe(
      undefined,
    );
  const other = snapshot({ spec: { source: { persistentVolumeClaimName: "other" } } });
  expect(capturedVolume(name, other)).toBeUndefined();
});

it("gives each claim of each checkpoint a name, in which it finds the checkpoint", () => {
  expect(snapshotName(name, "x")).not.toBe(snapshotName(name, "y"));
  fc.assert(
    fc.property(fc.stringMatching(/^[a-z0-9]([a-z0-9-]{0,40}[a-z0-9])?$/), fc.string(), (checkpointId, claim) => {
      expect(checkpointOfSnapshot(snapshotName({ namespace: "a", checkpointId }, claim))).toBe(checkpointId);
    }),
  );
  for (const one of ["ramet-c-1", "c-1-0123456789", "ramet-c-1-012345678", "ramet-c-1-0123456789-x"])
    expect(checkpointOfSnapshot(one)).toBeUndefined();
});

it("knows a requested name by its record, although it may look like one that has the checkpoint's id", () => {
  expect(hasRequestedName(snapshot())).toBe(false);
  const requested = { ...volume, claimUid: "u", ofVolumes: 1, name: "ramet-x-snap-1790000000" };
  const { metadata, ...rest } = snapshotManifest(name, requested, "class");
  const found = Snapshot.parse({ ...rest, metadata: { ...metadata, uid: "v", resourceVersion: "1" } });
  expect(checkpointOfSnapshot(found.metadata.name)).toBe("x-snap");
  expect(hasRequestedName(found)).toBe(true);
});
