import { expect, test } from "vitest";
import { resolveCheckpointSpec } from "./checkpoint.ts";

test.each([
  [undefined, undefined, ["memory", "filesystem"]],
  [undefined, ["filesystem"], ["filesystem"]],
  [undefined, ["ip", "filesystem"], ["filesystem"]],
  [undefined, ["filesystem", "memory", "ip"], ["memory", "filesystem"]],
  [undefined, ["ip"], ["memory", "filesystem"]],
  [[], ["filesystem"], ["filesystem"]],
  [["filesystem"], ["memory", "filesystem"], ["filesystem"]],
  [["filesystem", "memory"], ["filesystem"], ["memory", "filesystem"]],
] as const)("spec %j of a sandbox with %j captures %j", (wished, sandbox, contents) => {
  const spec = { podName: "a", ...(wished && { persistentContents: [...wished] }) };
  expect(resolveCheckpointSpec(spec, sandbox).contents).toEqual(contents);
});

test("a wish that says little has the documented defaults", () => {
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
