import { expect, it } from "vitest";
import { resolveCheckpointSpec } from "./checkpoint.ts";

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
  expect(resolveCheckpointSpec(spec, sandbox).contents).toEqual(contents);
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
  expect(resolveCheckpointSpec(spec, sandbox).volumes).toEqual(volumes);
});

it("captures only volumes if the Checkpoint itself lists nothing else, and named volumes in any case", () => {
  const only = { podName: "a", persistentContents: ["volumes"] };
  expect(resolveCheckpointSpec(only, ["memory", "filesystem"]).contents).toEqual([]);
  expect(resolveCheckpointSpec({ podName: "a" }, ["volumes"]).contents).toEqual(["memory", "filesystem"]);
  expect(resolveCheckpointSpec({ ...only, volumes: ["data"] }).volumes).toEqual(["data"]);
  expect(resolveCheckpointSpec({ podName: "a", volumes: ["*"] }, ["filesystem"])).toMatchObject({
    contents: ["filesystem"],
    volumes: "all",
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
