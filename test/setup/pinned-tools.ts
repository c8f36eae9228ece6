import { join } from "node:path";
import type { Tool } from "../../src/local/tools/tool.ts";

/** A program that tests alone run; its module's version stands in `test/tools/go.mod`. */
export type TestToolName = "versitygw";

export const testToolNames: readonly TestToolName[] = ["versitygw"];

export function pinnedTestTool(name: TestToolName): Promise<Tool> {
  const module = join(import.meta.dirname, "..", "tools");
  const build = { module, package: "github.com/versity/versitygw/cmd/versitygw", set: {}, coldSeconds: 90 };
  return Promise.resolve({ name, version: "1.8.0", build });
}
