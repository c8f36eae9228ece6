import { join } from "node:path";
import type { Tool } from "../../src/local/tools/tool.ts";

/** A program that only tests run. `test/tools/go.mod` has the version of its module. */
export type TestToolName = keyof typeof pinned;

const pinned = {
  versitygw: { version: "1.8.0", package: "github.com/versity/versitygw/cmd/versitygw", coldSeconds: 90 },
  "fake-gcs-server": { version: "1.56.1", package: "github.com/fsouza/fake-gcs-server", coldSeconds: 90 },
} as const;

export const testToolNames = Object.keys(pinned) as TestToolName[];

export function pinnedTestTool(name: TestToolName): Promise<Tool> {
  const { version, ...built } = pinned[name];
  const module = join(import.meta.dirname, "..", "tools");
  return Promise.resolve({ name, version, build: { ...built, module, set: {} } });
}
