import fc from "fast-check";
import { expect, it } from "vitest";
import { Sandbox } from "../../api/kinds/sandbox.ts";
import { metadataAnnotation, metadataFilter, metadataOf } from "./client-metadata.ts";

function sandboxWith(annotations: Record<string, string>): Sandbox {
  const metadata = { name: "a", namespace: "t", uid: "u", resourceVersion: "1", creationTimestamp: "", annotations };
  return Sandbox.parse({ apiVersion: "agents.kruise.io/v1alpha1", kind: "Sandbox", metadata, spec: {} });
}

// JavaScript drops the key `__proto__` of any JSON.
const key = fc.string({ minLength: 1 }).filter((text) => text !== "__proto__");
const metadata = fc.dictionary(key, fc.string(), { minKeys: 1, maxKeys: 4 });

/** As the SDKs write it, after the server has decoded the query. */
function encoded(pairs: Record<string, string>): string {
  const parts = Object.entries(pairs).map(([key, value]) => `${encodeURIComponent(key)}=${encodeURIComponent(value)}`);
  return parts.map((part) => part.split("=").map(encodeURIComponent).join("=")).join("&");
}

it("keeps any metadata, and finds a sandbox by each part of it", () => {
  fc.assert(
    fc.property(metadata, (given) => {
      const sandbox = sandboxWith(metadataAnnotation(given));
      expect(metadataOf(sandbox)).toEqual(given);
      for (const [key, value] of Object.entries(given)) {
        expect(metadataFilter(encoded({ [key]: value }))(sandbox)).toBe(true);
        expect(metadataFilter(encoded({ [key]: `${value}x` }))(sandbox)).toBe(false);
      }
    }),
  );
});

it("reads an annotation that a user has broken as no metadata", () => {
  for (const text of ["", "null", "[1]", '{"a":1}', "{"])
    expect(metadataOf(sandboxWith({ "ramet.dev/client-metadata": text }))).toEqual({});
});

it("finds each sandbox by a filter without entries", () => {
  expect(metadataFilter("")(sandboxWith({}))).toBe(true);
});

it.each([
  ["csi-volume-config", '[{"pvName":"a","mountPath":"/a"}]'],
  ["csi-volume-name", "a"],
  ["image", "python"],
  ["cpu-limit", "2"],
  ["never-timeout", "true"],
  ["create-on-no-stock", "false"],
  ["reserve-paused-sandbox-duration", "1h"],
  ["sandbox-name", "a"],
])("refuses the extension %s with the value %j, which would have no effect", (name, value) => {
  const key = `e2b.agents.kruise.io/${name}`;
  expect(() => metadataAnnotation({ [key]: value })).toThrow(`metadata[${key}] is not supported`);
});

it.each([
  ["create-on-no-stock", "true"],
  ["reserve-paused-sandbox-duration", "forever"],
  ["never-timeout", "false"],
  ["image", ""],
  ["reserve-paused-sandbox-duration", ""],
  ["reserve-failed-sandbox", "true"],
  ["sandbox-ip", "10.0.0.1"],
])("keeps the extension %s with the value %j, which asks for what happens anyway", (name, value) => {
  const metadata = { [`e2b.agents.kruise.io/${name}`]: value };
  expect(metadataOf(sandboxWith(metadataAnnotation(metadata)))).toEqual(metadata);
});

it.each(["a", "a=b=c", "%25E0%25A4%25A=1", "%"])("rejects the filter %j", (text) => {
  expect(() => metadataFilter(text)).toThrow("not key=value pairs");
});

it("rejects metadata that is too large for an object", () => {
  expect(() => metadataAnnotation({ a: "x".repeat(70_000) })).toThrow("metadata has more than 65536 characters");
});
