import { expect, it } from "vitest";
import type { VolumeClasses } from "./cluster-facts.ts";
import { checkVolumes } from "./volume-checks.ts";

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
