import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestProject } from "vitest/node";
import { TestCluster } from "../cluster/local-cluster.ts";

declare module "vitest" {
  interface ProvidedContext {
    /** The directory of the cluster that the files of the project share. */
    sharedClusterHome: string;
  }
}

/** Vitest's global setup: a directory for a cluster that the first file starts that needs it. Removes both at the end. */
export async function setup({ provide }: TestProject): Promise<() => Promise<void>> {
  const home = await mkdtemp(join(tmpdir(), "ramet-shared-"));
  provide("sharedClusterHome", home);
  return () => TestCluster.at(home).remove();
}
