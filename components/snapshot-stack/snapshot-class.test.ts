import { output } from "@pulumi/pulumi";
import { expect, it } from "vitest";
import { knownValue } from "../await.ts";
import { classesOf } from "./snapshot-class.ts";

it("creates a class for each purpose, with options that may be outputs", async () => {
  const zones = output(["eu-west-1a", "eu-west-1b"]);
  const classes = classesOf({ driver: "ebs.csi.aws.com", default: "clone-delete", ebs: { fastRestoreZones: zones } });
  expect(classes).toMatchObject([
    { name: "ebs-checkpoint-retain", purpose: "checkpoint-retain", isDefault: false },
    { name: "ebs-clone-delete", purpose: "clone-delete", isDefault: true },
  ]);
  expect(await knownValue(classes[0]?.parameters ?? output({}))).toEqual({
    fastSnapshotRestoreAvailabilityZones: "eu-west-1a,eu-west-1b",
  });
});

it("rejects options of another driver", () => {
  expect(() => classesOf({ driver: "ebs.csi.aws.com", pd: { type: "images" } })).toThrow(
    "The snapshot options pd do not apply to the driver ebs.csi.aws.com. Use the options ebs [InvalidArgument]",
  );
});
