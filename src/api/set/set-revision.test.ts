import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { countOf } from "../../controllers/sandbox-set/state.ts";
import { SandboxSet, type SandboxSetSpec } from "../kinds/sandbox-set.ts";
import { SandboxTemplate, type SandboxTemplateSpec } from "../kinds/sandbox-template.ts";
import { setRevision, setSandbox } from "./set-revision.ts";

const meta = (name: string) => ({
  name,
  namespace: "team-a",
  uid: `uid-of-${name}`,
  resourceVersion: "1",
  creationTimestamp: "2030-01-01T00:00:00Z",
});
const apiVersion = "agents.kruise.io/v1alpha1";
const set = (spec: Partial<SandboxSetSpec>, name = "python") =>
  SandboxSet.parse({ apiVersion, kind: "SandboxSet", metadata: meta(name), spec: { replicas: 2, ...spec } });
const named = (spec: SandboxTemplateSpec) =>
  SandboxTemplate.parse({ apiVersion, kind: "SandboxTemplate", metadata: meta("base"), spec });
const unresolved = (reference: string) => reference;
const template = {
  metadata: { labels: { app: "a" }, annotations: { note: "n" } },
  spec: { containers: [{ name: "main", image: "python", env: [{ name: "A", value: "1" }] }] },
};
const hashOf = (spec: Partial<SandboxSetSpec>) => setRevision(set(spec), undefined, unresolved).hash;

describe("setRevision", () => {
  it("returns this hash for this template, on every machine and in every later version", () => {
    expect(setRevision(set({ template }), undefined, unresolved)).toMatchObject({
      hash: "vlmt4mmgk",
      templateName: "python-vlmt4mmgk",
      materialised: true,
    });
  });

  it("does not depend on the order of keys, on nulls, or on the number of replicas", () => {
    const { spec, metadata } = template;
    const reordered = { spec: { ...spec, volumes: null }, metadata: { creationTimestamp: null, ...metadata } };
    expect(hashOf({ template: reordered, replicas: 7, scaleStrategy: { maxUnavailable: 1 } })).toBe(
      hashOf({ template }),
    );
  });

  it("changes with every input", () => {
    const main = template.spec.containers[0]!;
    const variants: Partial<SandboxSetSpec>[] = [
      { template },
      { template: { ...template, spec: { containers: [{ ...main, image: "other" }] } } },
      { template: { ...template, metadata: { ...template.metadata, labels: { app: "b" } } } },
      { template, pauseStrategy: { type: "Stop" } },
      { template, persistentContents: ["filesystem"] },
      { template, runtimes: [{ name: "csi" }] },
      { template, volumeClaimTemplates: [{ metadata: { name: "data" }, spec: {} }] },
    ];
    expect(new Set(variants.map(hashOf)).size).toBe(variants.length);
  });

  it("changes with any value in the template", () => {
    const withValue = (value: string) => ({
      spec: { containers: [{ name: "main", image: "python", args: [value] }] },
    });
    fc.assert(
      fc.property(fc.string(), fc.string(), (a, b) => {
        expect(hashOf({ template: withValue(a) }) === hashOf({ template: withValue(b) })).toBe(a === b);
      }),
    );
  });

  it("uses the referenced template, overridden by the fields of the set", () => {
    const base = named({ template, persistentContents: ["memory"], pauseStrategy: { type: "Stop" } });
    const ref = { templateRef: { name: "base" } };
    expect(setRevision(set(ref), base, unresolved)).toMatchObject({
      templateName: "base",
      materialised: false,
      spec: { template, persistentContents: ["memory"] },
    });
    const own = setRevision(set({ ...ref, persistentContents: ["filesystem"] }), base, unresolved);
    expect(own.spec.persistentContents).toEqual(["filesystem"]);
    expect(own.spec.pauseStrategy).toBeUndefined();
  });

  it("overrides what the referenced template says of the end of Pods by the annotations of the set", () => {
    const [policy, every] = ["ramet.dev/on-disruption", "ramet.dev/checkpoint-every"];
    const metadata = { labels: { app: "a" }, annotations: { [policy]: "End", note: "kept" } };
    const base = named({ template: { ...template, metadata } });
    const pool = set({ templateRef: { name: "base" } });
    const annotated = (annotations: Record<string, string>) =>
      setRevision({ ...pool, metadata: { ...pool.metadata, annotations } }, base, unresolved);
    const own = annotated({ [policy]: "Pause", [every]: "10m", other: "x" });
    expect(own.spec.template?.["metadata"]).toEqual({
      labels: { app: "a" },
      annotations: { [policy]: "Pause", [every]: "10m", note: "kept" },
    });
    expect(setSandbox(pool, own, () => 0).spec.template?.["metadata"]).toEqual(own.spec.template?.["metadata"]);
    expect(annotated({ other: "x" }).hash).toBe(setRevision(pool, base, unresolved).hash);
    expect(() => annotated({ [policy]: "pause" })).toThrow(
      'metadata.annotations[ramet.dev/on-disruption]: "pause" is not Migrate, Pause or End',
    );
  });

  it("names the missing or invalid field", () => {
    expect(() => setRevision(set({ templateRef: { name: "base" } }), undefined, unresolved)).toThrow(
      "The SandboxTemplate base does not exist in the namespace team-a",
    );
    expect(() => hashOf({})).toThrow("neither spec.template nor spec.templateRef");
    expect(() => hashOf({ template: { spec: { containers: [] } } })).toThrow("spec.template.spec.containers");
    expect(() => hashOf({ template: { metadata: {} } })).toThrow("spec.template.spec");
    expect(() => setRevision(set({ template }, "n".repeat(64)), undefined, unresolved)).toThrow("64 characters");
  });

  it("changes when the restore-from name resolves to another checkpoint", () => {
    const from = { metadata: { annotations: { "ramet.dev/restore-from": "python-data", note: "n" } } };
    const at = (id: string) => setRevision(set({ template: from }), undefined, () => id);
    expect(at("c-1").hash).not.toBe(at("c-2").hash);
    expect(at("c-1").spec.template).toEqual({
      metadata: { annotations: { "ramet.dev/restore-from": "c-1", note: "n" } },
    });
  });
});

describe("setSandbox", () => {
  const half = () => 0.5;

  it("creates an unclaimed sandbox that the set owns, from the template", () => {
    const owner = set({ template, persistentContents: ["memory", "filesystem"] });
    const revision = setRevision(owner, undefined, unresolved);
    expect(setSandbox(owner, revision, half)).toEqual({
      apiVersion,
      kind: "Sandbox",
      metadata: {
        name: "python-rrrrr",
        namespace: "team-a",
        labels: {
          app: "a",
          "agents.kruise.io/sandbox-pool": "python",
          "agents.kruise.io/sandbox-template": "python",
          "agents.kruise.io/sandbox-claimed": "false",
          "agents.kruise.io/template-hash": revision.hash,
        },
        annotations: { note: "n" },
        ownerReferences: [
          {
            apiVersion,
            kind: "SandboxSet",
            name: "python",
            uid: "uid-of-python",
            controller: true,
            blockOwnerDeletion: true,
          },
        ],
      },
      spec: { template, persistentContents: ["memory", "filesystem"] },
    });
  });

  it("copies no internal keys of the template except restore-from and cleanup annotations", () => {
    const annotations = {
      "agents.kruise.io/lock": "x",
      "agents.kruise.io/sandbox-priority": "100",
      "agents.kruise.io/cleanup-enabled": "true",
      "e2b.agents.kruise.io/envd-url": "x",
      "agents.kruise.io/restore-from": "c-1",
    };
    const owner = set({ template: { metadata: { annotations } } });
    const sandbox = setSandbox(owner, setRevision(owner, undefined, unresolved), half);
    expect(sandbox.metadata.annotations).toEqual({
      "agents.kruise.io/cleanup-enabled": "true",
      "agents.kruise.io/restore-from": "c-1",
    });
    expect(sandbox.spec).toEqual({});
  });

  it("uses a DNS label as the sandbox's name for any name of the set", () => {
    const label = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;
    const part = fc.stringMatching(/^[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?$/);
    const name = fc.array(part, { minLength: 1, maxLength: 4 }).map((parts) => parts.join(".").slice(0, 61) + "z");
    fc.assert(
      fc.property(name, fc.double({ min: 0, max: 0.999, noNaN: true }), (setName, random) => {
        const owner = set({ template }, setName);
        expect(setSandbox(owner, setRevision(owner, undefined, unresolved), () => random).metadata.name).toMatch(label);
      }),
    );
  });
});

describe("countOf", () => {
  it("rounds a percentage up", () => {
    expect([countOf(3, 10, "f"), countOf("20%", 10, "f"), countOf("20%", 1, "f"), countOf("0%", 9, "f")]).toEqual([
      3, 2, 1, 0,
    ]);
  });

  it("rejects an invalid value and names the field", () => {
    for (const value of [-1, "3", "x%", "-5%"]) expect(() => countOf(value, 1, "spec.f")).toThrow("spec.f is neither");
  });
});
