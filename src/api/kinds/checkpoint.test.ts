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
