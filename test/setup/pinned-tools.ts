import { join } from "node:path";
import { builtFromSources } from "../../src/local/tools/pinned-tools.ts";
import type { Tool } from "../../src/local/tools/tool.ts";

/** Programs with the libraries of Prometheus, Helm, and kstatus. Their sources are beside their tests, in `test/contract`. */
export const askingPrograms = ["alerts", "chart", "kstatus"] as const;
type AskingProgram = (typeof askingPrograms)[number];

/** A program that only tests run. Its version is also in `test/tools/go.mod`, or in that of its directory below. */
export type TestToolName = keyof typeof pinned | AskingProgram;

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
  if (isAsking(name)) return builtFromSources(name, ".", join(import.meta.dirname, "..", "contract", name));
  const { version, directory = ".", ...built }: Pinned = pinned[name];
  const module = join(import.meta.dirname, "..", "tools", directory);
  return Promise.resolve({ name, version, build: { ...built, module, set: {} } });
}

function isAsking(name: TestToolName): name is AskingProgram {
  return askingPrograms.some((one) => one === name);
}
