import fc from "fast-check";
import { expect, it } from "vitest";
import { canonicalJson } from "../../base/canonical-json.ts";
import { digestOf } from "../schema/digest.ts";
import { templateDigest, templateRevision } from "./restore-spec.ts";
import { parsePodTemplate } from "../schema/pod-template.ts";

const template = {
  metadata: { labels: { agent: "demo" } },
  spec: {
    containers: [
      {
        name: "main",
        image: "python:3.12",
        command: ["python3"],
        args: ["-m", "http.server", "$(PORT)"],
        env: [{ name: "PORT", value: "8000" }],
        volumeMounts: [
          { name: "b", mountPath: "/b", readOnly: true },
          { name: "a", mountPath: "/a" },
        ],
        securityContext: { runAsUser: 1000 },
      },
    ],
    volumes: [
      { name: "a", emptyDir: {} },
      { name: "b", emptyDir: {} },
    ],
  },
};

/** The digest of the template above with a changed main container. */
function digestWith(change: Record<string, unknown>): string {
  const container = { ...template.spec.containers[0], ...change };
  return templateDigest(parsePodTemplate({ ...template, spec: { ...template.spec, containers: [container] } }));
}

it("keeps the digests of a known template, because stored checkpoints contain them", () => {
  expect(digestWith({})).toMatchInlineSnapshot(
    `"sha256:c3f0e13e6353818f94214a29be77a5a3b322e5881a743e39a95706082955015a"`,
  );
  expect(templateRevision(template)).toMatchInlineSnapshot(`"dl5vlb2q2"`);
});

it("ignores fields that may differ at a restore", () => {
  const same = digestWith({});
  expect(digestWith({ name: "other" })).toBe(same);
  expect(
    digestWith({
      env: [
        { name: "PORT", value: "8000" },
        { name: "MORE", value: "1" },
      ],
    }),
  ).toBe(same);
  expect(digestWith({ resources: { limits: { memory: "1Gi" } } })).toBe(same);
  expect(digestWith({ ports: [{ containerPort: 8000 }] })).toBe(same);
  expect(digestWith({ volumeMounts: [...(template.spec.containers[0]?.volumeMounts ?? [])].reverse() })).toBe(same);
});

it("changes with every field that gVisor compares", () => {
  const changes = [
    { image: "python:3.13" },
    { command: ["python"] },
    { args: [] },
    { env: [{ name: "PORT", value: "8001" }] }, // an argument contains it
    { workingDir: "/srv" },
    { securityContext: { runAsUser: 1001 } },
    { securityContext: { runAsUser: 1000, readOnlyRootFilesystem: true } },
    { volumeMounts: [{ name: "a", mountPath: "/a" }] },
  ];
  const digests = new Set([{}, ...changes].map((change) => digestWith(change)));
  expect(digests.size).toBe(changes.length + 1);
});

it("ignores the order of keys, but not the order of lists", () => {
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.jsonValue()), (value) => {
      const reversed = Object.fromEntries(Object.entries(value).reverse());
      expect(digestOf(reversed)).toBe(digestOf(value));
      expect(JSON.parse(canonicalJson(value))).toEqual(JSON.parse(JSON.stringify(value)));
    }),
  );
  expect(digestOf(["a", "b"])).not.toBe(digestOf(["b", "a"]));
});

it("returns a revision that is a valid label and changes with any value", () => {
  expect(templateRevision({ a: 1 })).not.toBe(templateRevision({ a: 2 }));
  expect(templateRevision(template)).toMatch(/^[a-z0-9]{9}$/);
});
