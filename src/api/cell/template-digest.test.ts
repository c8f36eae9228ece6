import fc from "fast-check";
import { expect, test } from "vitest";
import { canonicalJson } from "../../base/canonical-json.ts";
import { digestOf, templateDigest, templateRevision } from "./template-digest.ts";
import { parsePodTemplate } from "../schema/pod-template.ts";

const written = {
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

/** The written template with the main container changed. */
function digestWith(change: Record<string, unknown>): string {
  const container = { ...written.spec.containers[0], ...change };
  return templateDigest(parsePodTemplate({ ...written, spec: { ...written.spec, containers: [container] } }));
}

test("the digests of a known template stay what they were: checkpoints in stores carry them", () => {
  expect(digestWith({})).toMatchInlineSnapshot(
    `"sha256:c3f0e13e6353818f94214a29be77a5a3b322e5881a743e39a95706082955015a"`,
  );
  expect(templateRevision(written)).toMatchInlineSnapshot(`"dl5vlb2q2"`);
});

test("what may differ at a restore does not count", () => {
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
  expect(digestWith({ volumeMounts: [...(written.spec.containers[0]?.volumeMounts ?? [])].reverse() })).toBe(same);
});

test("what gVisor compares counts", () => {
  const changes = [
    { image: "python:3.13" },
    { command: ["python"] },
    { args: [] },
    { env: [{ name: "PORT", value: "8001" }] }, // an argument is made from it
    { workingDir: "/srv" },
    { securityContext: { runAsUser: 1001 } },
    { securityContext: { runAsUser: 1000, readOnlyRootFilesystem: true } },
    { volumeMounts: [{ name: "a", mountPath: "/a" }] },
  ];
  const digests = new Set([{}, ...changes].map((change) => digestWith(change)));
  expect(digests.size).toBe(changes.length + 1);
});

test("the order of keys never counts, that of lists always does", () => {
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.jsonValue()), (value) => {
      const reversed = Object.fromEntries(Object.entries(value).reverse());
      expect(digestOf(reversed)).toBe(digestOf(value));
      expect(JSON.parse(canonicalJson(value))).toEqual(JSON.parse(JSON.stringify(value)));
    }),
  );
  expect(digestOf(["a", "b"])).not.toBe(digestOf(["b", "a"]));
});

test("a revision changes with anything and is a legal label", () => {
  expect(templateRevision({ a: 1 })).not.toBe(templateRevision({ a: 2 }));
  expect(templateRevision(written)).toMatch(/^[a-z0-9]{9}$/);
});
