import { expect, it } from "vitest";
import { classNameFor, classParameters, driverNames } from "./class-parameters.ts";

it("converts options to the string parameters of each driver", () => {
  const lock = { mode: "compliance", days: 30, coolOffHours: 24 };
  expect(
    classParameters(driverNames.ebs, { tags: { team: "a", env: "prod" }, fastRestoreZones: ["a", "b"], lock }),
  ).toEqual({
    tagSpecification_1: "team=a",
    tagSpecification_2: "env=prod",
    fastSnapshotRestoreAvailabilityZones: "a,b",
    lockMode: "compliance",
    lockDuration: "30",
    lockCoolOffPeriod: "24",
  });
  expect(
    classParameters(driverNames.pd, { type: "images", imageFamily: "golden", labels: { a: "b", c: "d" } }),
  ).toEqual({
    "snapshot-type": "images",
    "image-family": "golden",
    labels: "a=b,c=d",
  });
  const azure = { incremental: false, subscriptionId: "s", instantAccessMinutes: 60 };
  expect(classParameters(driverNames.azureDisk, azure)).toEqual({
    incremental: "false",
    subscriptionID: "s",
    instantAccessDurationMinutes: "60",
  });
  expect(classParameters(driverNames.alibabaDisk, { retentionDays: 7, tags: { a: "b" } })).toEqual({
    retentionDays: "7",
    "snapshotTags/a": "b",
  });
  expect(classParameters("hostpath.csi.k8s.io", { anything: "goes" })).toEqual({ anything: "goes" });
});

it.each([
  [driverNames.ebs, { encrypted: "true" }, /Unrecognized key: "encrypted"/],
  [driverNames.pd, { "snapshot-type": "images" }, /Unrecognized key: "snapshot-type"/],
  [driverNames.azureDisk, { instantAccessMinutes: 10 }, /instantAccessMinutes: Too small/],
  [driverNames.azureDisk, { subscriptionId: "s" }, /set incremental to false/],
  [driverNames.pd, { imageFamily: "golden" }, /only an image has an imageFamily/],
  [driverNames.ebs, { lock: { mode: "governance", days: 1, until: "2030-01-01T00:00:00Z" } }, /either days or until/],
  ["hostpath.csi.k8s.io", { number: 1 }, /number: Invalid input/],
])("rejects for %s the options %o", (driver, options, why) => {
  expect(() => classParameters(driver, options)).toThrow(why);
});

it("lists the supported options of a driver", () => {
  expect(() => classParameters(driverNames.alibabaDisk, { ttl: 1 })).toThrow(
    expect.objectContaining({
      code: "InvalidArgument",
      hint: "Supported options: retentionDays, resourceGroupId, tags",
    }),
  );
});

it("derives class names from driver and purpose", () => {
  expect(classNameFor({ driver: driverNames.ebsAutoMode }, "checkpoint-retain")).toBe("ebs-auto-checkpoint-retain");
  expect(classNameFor({ driver: "rbd.csi.ceph.com" }, "clone-delete")).toBe("rbd-csi-ceph-com-clone-delete");
  expect(classNameFor({ driver: driverNames.pd, name: "golden" }, "clone-delete")).toBe("golden-clone-delete");
});
