import { expect, it } from "vitest";
import { missingVolumes, volumesOfTemplate } from "./missing-volumes.ts";

it("fails a check if volumes would be lost and the program does not choose, and names them", () => {
  const [failure] = missingVolumes(["home"], {});
  expect(failure).toMatchObject({ property: "volumesOnRestore" });
  expect(failure?.reason).toContain("home");
  expect(missingVolumes(["home"], { volumesOnRestore: "Empty" })).toEqual([]);
  expect(missingVolumes([], {})).toEqual([]);
});

it("finds all three kinds of claims in a template", () => {
  const volumes = [
    { name: "data", persistentVolumeClaim: { claimName: "team-data" } },
    { name: "cache", ephemeral: {} },
    { name: "tmp", emptyDir: {} },
  ];
  const template = { spec: { containers: [{ name: "main", image: "x" }], volumes } };
  expect(volumesOfTemplate({ template, volumeClaimTemplates: [{ metadata: { name: "home" } }] })).toEqual([
    "data",
    "cache",
    "home",
  ]);
});
