import { expect, it } from "vitest";
import { kruise, namedSnapshotOf, specOf } from "./rule.ts";

const set = { apiVersion: "agents.kruise.io/v1alpha1", kind: "SandboxSet", spec: { replicas: 1 } };
const type = "kubernetes:agents.kruise.io/v1alpha1:SandboxSet";

it("returns the spec of the requested kind only", () => {
  expect(specOf({ type, name: "pool", inputs: set }, kruise, "SandboxSet")).toEqual({ replicas: 1 });
  expect(specOf({ type, name: "pool", inputs: set }, kruise, "Sandbox")).toBeUndefined();
  expect(
    specOf({ type, name: "pool", inputs: { ...set, apiVersion: "other/v1" } }, kruise, "SandboxSet"),
  ).toBeUndefined();
  expect(specOf({ type: "aws:s3/bucket:Bucket", name: "b", inputs: set }, kruise, "SandboxSet")).toBeUndefined();
});

it("finds named snapshots in dynamic resources and in manifests", () => {
  const inputs = { keepVersions: 5 };
  const dynamic = { type: "pulumi-nodejs:dynamic/ramet:NamedSnapshot", name: "data", inputs };
  expect(namedSnapshotOf(dynamic)).toEqual(inputs);
  const manifest = { apiVersion: "ramet.dev/v1alpha1", kind: "NamedSnapshot", spec: inputs };
  expect(
    namedSnapshotOf({ type: "kubernetes:ramet.dev/v1alpha1:NamedSnapshot", name: "data", inputs: manifest }),
  ).toEqual(inputs);
});

it("reads only the fields that it needs, because others may be unknown", () => {
  const unknown = {
    ...set,
    get metadata(): never {
      throw new Error("unknown");
    },
  };
  expect(specOf({ type, name: "pool", inputs: unknown }, kruise, "SandboxSet")).toEqual({ replicas: 1 });
});
