import { describe, expect, it } from "vitest";
import { type ContentFields, contentsByDefault, resolveCheckpointSpec } from "./checkpoint-spec.ts";

it.each([
  [undefined, undefined, ["memory", "filesystem"]],
  [undefined, ["filesystem"], ["filesystem"]],
  [undefined, ["ip", "filesystem"], ["filesystem"]],
  [undefined, ["filesystem", "memory", "ip"], ["memory", "filesystem"]],
  [undefined, ["ip"], ["memory", "filesystem"]],
  [[], ["filesystem"], ["filesystem"]],
  [["filesystem"], ["memory", "filesystem"], ["filesystem"]],
  [["filesystem", "memory"], ["filesystem"], ["memory", "filesystem"]],
  [["podInfo"], ["filesystem"], ["filesystem"]],
  [["podInfo"], undefined, ["memory", "filesystem"]],
  [["podInfo", "filesystem", "disk"], ["memory", "filesystem"], ["filesystem"]],
] as const)("resolves the contents %j of a sandbox with %j to %j", (requested, sandbox, contents) => {
  const spec = { podName: "a", ...(requested && { persistentContents: [...requested] }) };
  expect(resolveCheckpointSpec(spec, { persistentContents: sandbox }).contents).toEqual(contents);
});

it.each([
  [undefined, ["memory", "filesystem"], "none"],
  [undefined, ["memory", "filesystem", "volumes"], "all"],
  [undefined, ["volumes"], "all"],
  [["filesystem"], ["volumes"], "none"],
  [["filesystem", "volumes"], [], "all"],
  [["volumes"], ["filesystem"], "all"],
] as const)("captures with the contents %j, of a sandbox with %j, %s of its volumes", (requested, sandbox, volumes) => {
  const spec = { podName: "a", ...(requested && { persistentContents: [...requested] }) };
  expect(resolveCheckpointSpec(spec, { persistentContents: sandbox }).volumes).toEqual(volumes);
});

it("captures only volumes if the Checkpoint itself lists nothing else, and named volumes in any case", () => {
  const only = { podName: "a", persistentContents: ["volumes"] };
  expect(resolveCheckpointSpec(only, { persistentContents: ["memory", "filesystem"] }).contents).toEqual([]);
  expect(resolveCheckpointSpec({ podName: "a" }, { persistentContents: ["volumes"] }).contents).toEqual([
    "memory",
    "filesystem",
  ]);
  expect(resolveCheckpointSpec({ ...only, volumes: ["data"] }).volumes).toEqual(["data"]);
  expect(resolveCheckpointSpec({ podName: "a", volumes: ["*"] }, { persistentContents: ["filesystem"] })).toMatchObject(
    {
      contents: ["filesystem"],
      volumes: "all",
    },
  );
});

describe("a sandbox that names volumes", () => {
  const named = { persistentContents: ["filesystem", "volumes"], volumes: ["data"] };
  const volumes = (spec: object, source: ContentFields) =>
    resolveCheckpointSpec({ podName: "a", ...spec }, source).volumes;

  it("has them in its checkpoints, unless these say otherwise", () => {
    expect(volumes({}, named)).toEqual(["data"]);
    expect(volumes({ persistentContents: ["volumes"] }, named)).toEqual(["data"]);
    expect(volumes({ persistentContents: ["filesystem"] }, named)).toBe("none");
    expect(volumes({ volumes: ["*"] }, named)).toBe("all");
    expect(volumes({ volumes: ["logs"] }, named)).toEqual(["logs"]);
  });

  it("selects them also without persistentContents", () => {
    expect(contentsByDefault({ volumes: ["data"] })).toEqual({ persistentContents: ["volumes"], volumes: ["data"] });
    expect(contentsByDefault({ volumes: ["data"] }, { persistentContents: ["filesystem"] })).toEqual({
      persistentContents: ["filesystem", "volumes"],
      volumes: ["data"],
    });
  });

  it("replaces what its template says of contents by its own", () => {
    expect(contentsByDefault({ persistentContents: ["filesystem"] }, named)).toEqual({
      persistentContents: ["filesystem"],
    });
    expect(contentsByDefault({ volumes: ["logs"] }, named)).toEqual({ ...named, volumes: ["logs"] });
    expect(contentsByDefault({}, named)).toEqual(named);
    expect(contentsByDefault()).toEqual({});
  });
});

it("is atomic if that is required", () => {
  const resolved = resolveCheckpointSpec({ podName: "a", requireAtomic: true });
  expect(resolved).toMatchObject({ consistency: "atomic", requireAtomic: true });
  expect(resolveCheckpointSpec({ podName: "a" })).toMatchObject({ consistency: "crash", requireAtomic: false });
});

it("applies the documented defaults to a minimal spec", () => {
  expect(resolveCheckpointSpec({ podName: "a" })).toMatchObject({
    sandboxName: "a",
    keepRunning: true,
    ttlMilliseconds: undefined,
  });
  expect(resolveCheckpointSpec({ sandboxName: "b", keepRunning: false, ttlAfterFinished: "30d" })).toMatchObject({
    sandboxName: "b",
    keepRunning: false,
    ttlMilliseconds: 30 * 86_400_000,
  });
});
