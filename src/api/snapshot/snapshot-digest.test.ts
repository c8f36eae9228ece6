import fc from "fast-check";
import { expect, it } from "vitest";
import type { RecipeStep } from "../recipe/recipe.ts";
import { snapshotDigest, unchangedSteps, secretIdentity, type SnapshotInputs } from "./snapshot-digest.ts";

const golden: SnapshotInputs = {
  from: { template: { template: { spec: { containers: [{ name: "main", image: "python:3.12" }] } } } },
  recipe: [
    { run: "pip install pandas==2.3.0", env: { A: "1", B: "2" }, timeoutSeconds: 60 },
    { copy: { path: "/data/seed.csv", content: "a,b\n1,2\n" } },
    { copy: { path: "/data/key", secretKeyRef: { name: "s", key: "k" } } },
    { start: "python -m http.server 8000" },
    { waitFor: { port: 8000 } },
  ],
  copied: new Map([[2, { identity: "declared:x" }]]),
  contents: ["memory", "filesystem"],
};

/** A changed value here rebuilds every existing named snapshot. Change it only on purpose, and with a new `v`. */
it("keeps the digest of a known recipe", () => {
  // A version keeps its digest, whether the controllers make layers by default or not.
  expect(snapshotDigest(golden)).toMatchObject({
    digest: snapshotDigest({ ...golden, hasLayers: false }).digest,
    layers: true,
  });
  const { digest, base, steps } = snapshotDigest({ ...golden, hasLayers: false });
  expect({ digest, base, steps }).toMatchInlineSnapshot(`
    {
      "base": "sha256:9c737599fc9f371cc16a6a229875b6264b3566052c53b2e5d4c2947daaaf972a",
      "digest": "sha256:8cd832ef2202b69a6bcb56da146ac10df7ad49e1835c866876c8c88db428d8c9",
      "steps": [
        "sha256:1424d3aae978c777a4cf702e84ba724dfa03406fd895d3e3f0b9620c0a1d370b",
        "sha256:bedccb2f686874132e97af3197418b3ad39aa36aa2867e86ba17e7a296f01f21",
        "sha256:c4cb1790cb0fd5b28e1583d3880ca457868ab0076c1eed62e02f37c635555a7e",
        "sha256:308f2bbc96c59d77964e43a94bfd96d2a203ec8e4667a72c3f729b97fa8a3cb4",
        "sha256:57c5408c13c352f4d114e5d2e4694a32e0a37f3e44e975f35c89ff1c061d8c68",
      ],
    }
  `);
});

const text = fc.string({ maxLength: 6 });
const step: fc.Arbitrary<RecipeStep> = fc.oneof(
  fc.record({ run: text, env: fc.dictionary(fc.constantFrom("A", "B", "C"), text), cwd: text, user: text }),
  fc.record({ run: text, timeoutSeconds: fc.nat() }),
  fc.record({ copy: fc.record({ path: text, content: text, mode: text, user: text }) }),
  fc.record({ copy: fc.record({ path: text, url: text, sha256: text }) }),
  fc.record({ copy: fc.record({ path: text, secretKeyRef: fc.record({ name: text, key: text }) }) }),
  fc.record({ env: fc.dictionary(fc.constantFrom("A", "B", "C"), text) }),
  fc.record({ workdir: text }),
  fc.record({ user: text }),
  fc.record({ start: text }),
  fc.record({ waitFor: fc.record({ port: fc.nat(), timeoutSeconds: fc.nat() }) }),
  fc.record({ waitFor: fc.record({ command: text }) }),
);
const from: fc.Arbitrary<SnapshotInputs["from"]> = fc.oneof(
  fc.record({ template: fc.record({ template: fc.dictionary(text, fc.jsonValue()) }) }),
  fc.record({ snapshot: fc.record({ digest: text }) }),
  fc.record({ checkpoint: fc.record({ id: text }) }),
  fc.record({ sandbox: fc.record({ name: text, uid: text }) }),
);
const inputs: fc.Arbitrary<SnapshotInputs> = fc.record({
  from,
  recipe: fc.array(step, { maxLength: 5 }),
  copied: fc.constant(new Map()),
  contents: fc.constantFrom<SnapshotInputs["contents"]>(["memory", "filesystem"], ["filesystem"]),
});

/** The same value with its keys in reverse order, at every depth. */
function reversed<T>(value: T): T {
  if (Array.isArray(value)) return value.map(reversed) as T;
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .reverse()
      .map(([key, inner]) => [key, reversed(inner as unknown)]),
  ) as T;
}

it("ignores the order of keys and of contents", () => {
  fc.assert(
    fc.property(inputs, (given) => {
      const other: SnapshotInputs = {
        ...given,
        from: reversed(given.from),
        recipe: reversed(given.recipe),
        contents: [...given.contents].reverse(),
      };
      expect(snapshotDigest(other)).toEqual(snapshotDigest(given));
    }),
  );
});

/** The form that the API server stores: `-0` and `0` are one input, and so are null and an absent field. */
const stored = (value: unknown): string =>
  JSON.stringify(value, (_key, inner: unknown) => {
    if (typeof inner !== "object" || inner === null || Array.isArray(inner)) return inner;
    const entries = Object.entries(inner).filter(([, one]) => one !== null);
    return Object.fromEntries(entries.sort(([a], [b]) => (a < b ? -1 : 1)));
  });

it("returns equal digests only for equal inputs", () => {
  fc.assert(
    fc.property(inputs, inputs, (a, b) => {
      const same = stored([a.from, a.recipe, a.contents]) === stored([b.from, b.recipe, b.contents]);
      expect(snapshotDigest(a).digest === snapshotDigest(b).digest).toBe(same);
    }),
    { numRuns: 500 },
  );
});

it("changes the digests of a changed step and of those after it, and none before it", () => {
  fc.assert(
    fc.property(inputs, fc.nat(), step, (given, seed, changed) => {
      fc.pre(given.recipe.length > 0);
      const at = seed % given.recipe.length;
      fc.pre(stored(given.recipe[at]) !== stored(changed));
      const before = snapshotDigest(given);
      const after = snapshotDigest({ ...given, recipe: given.recipe.with(at, changed) });
      expect(after.digest).not.toBe(before.digest);
      expect(unchangedSteps(before.steps, after.steps)).toBe(at);
      for (const [index, one] of after.steps.entries()) expect(one === before.steps[index]).toBe(index < at);
    }),
  );
});

it("changes with every other input", () => {
  const changes: SnapshotInputs[] = [
    { ...golden, contents: ["filesystem"] },
    { ...golden, contents: ["filesystem", "volumes"] },
    { ...golden, contents: ["filesystem", "volumes"], volumes: ["data"] },
    { ...golden, contents: ["filesystem", "volumes"], volumes: ["data", "logs"] },
    { ...golden, layers: true },
    { ...golden, layers: false },
    { ...golden, contents: ["filesystem"], layers: true },
    { ...golden, copied: new Map([[2, { identity: "declared:y" }]]) },
    { ...golden, copied: new Map([[2, { sha256: "x" }]]) },
    { ...golden, from: { snapshot: { digest: "sha256:0" } } },
    { ...golden, from: { template: { template: { spec: { containers: [{ name: "main", image: "python:3.13" }] } } } } },
    { ...golden, recipe: golden.recipe.slice(0, 4) },
    { ...golden, recipe: [...golden.recipe, { run: "true" }] },
    { ...golden, recipe: [golden.recipe[1]!, golden.recipe[0]!, ...golden.recipe.slice(2)] },
  ];
  const digests = [golden, ...changes].map((one) => snapshotDigest(one).digest);
  expect(new Set(digests).size).toBe(digests.length);
  const [first, otherContents] = [golden, changes[0]!].map((one) => snapshotDigest(one).steps);
  expect(otherContents).toEqual(first);
});

it("shares no step between named snapshots with and without layers", () => {
  const [plain, layered] = [
    { ...golden, layers: false },
    { ...golden, layers: true },
  ].map((one) => snapshotDigest(one).steps);
  expect(unchangedSteps(plain!, layered!)).toBe(0);
  expect(snapshotDigest(golden).steps).toEqual(layered);
});

it("makes layers by default only on a template with a writable root, without mounts, and without volumes in the contents", () => {
  const container = { name: "main", image: "python:3.12", volumeMounts: [{ name: "data", mountPath: "/data" }] };
  const spec = { containers: [container], volumes: [{ name: "data", emptyDir: {} }] };
  const readOnly = { name: "main", image: "python:3.12", securityContext: { readOnlyRootFilesystem: true } };
  for (const change of [
    { from: { template: { template: { spec } } } },
    { from: { template: { template: { spec: { containers: [readOnly] } } } } },
    { from: { checkpoint: { id: "c" } } },
    { from: { template: { template: { spec: { containers: [] } } } } },
    { contents: ["filesystem", "volumes"] as const },
    { hasLayers: false },
  ])
    expect(snapshotDigest({ ...golden, ...change }).layers).toBe(false);
});

it("is the same for the names of volumes in any order, and for all volumes in either way", () => {
  const of = (...volumes: string[]) =>
    snapshotDigest({ ...golden, contents: ["filesystem", "volumes"], ...(volumes.length > 0 && { volumes }) }).digest;
  expect(of("logs", "data", "logs")).toBe(of("data", "logs"));
  expect(of("data", "*")).toBe(of());
});

it("counts the unchanged steps before an added or removed step", () => {
  const { steps } = snapshotDigest(golden);
  expect(unchangedSteps(steps, steps.slice(0, 3))).toBe(3);
  expect(unchangedSteps(steps.slice(0, 3), steps)).toBe(3);
  expect(unchangedSteps([], steps)).toBe(0);
});

it("represents a Secret by its author's declaration, else by its version, never by its bytes", () => {
  const object = { uid: "u", resourceVersion: "5" };
  expect(secretIdentity(object)).toBe("object:u/5");
  expect(secretIdentity({ ...object, annotations: { "ramet.dev/content-digest": "hmac" } })).toBe("declared:hmac");
});
