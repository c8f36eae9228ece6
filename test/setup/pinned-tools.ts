import { join } from "node:path";
import type { Tool } from "../../src/local/tools/tool.ts";

/** A program that only tests run. Its version is also in `test/tools/go.mod`, or in that of its directory below. */
export type TestToolName = keyof typeof pinned;

const pinned = {
  versitygw: { version: "1.8.0", package: "github.com/versity/versitygw/cmd/versitygw", coldSeconds: 90 },
  "fake-gcs-server": { version: "1.56.1", package: "github.com/fsouza/fake-gcs-server", coldSeconds: 90 },
  "csi-sanity": {
    version: "5.6.0",
    package: "github.com/kubernetes-csi/csi-test/v5/cmd/csi-sanity",
    directory: "csi-sanity",
    coldSeconds: 60,
  },
} as const satisfies Record<string, Pinned>;

interface Pinned {
  version: string;
  package: string;
  /** The directory below `test/tools` with the Go module. @default the directory itself */
  directory?: string;
  coldSeconds: number;
}

export function pinnedTestTool(name: TestToolName): Promise<Tool> {
  const { version, directory = ".", ...built }: Pinned = pinned[name];
  const module = join(import.meta.dirname, "..", "tools", directory);
  return Promise.resolve({ name, version, build: { ...built, module, set: {} } });
}
