import type { TestProject } from "vitest/node";
import type { SnapshotProgramName } from "../../src/local/volumes/snapshot-programs.ts";
import { startCluster } from "./cluster.ts";
import type { ClusterSetting } from "./node.ts";

/** The cluster, as provided to the tests. */
export interface GivenCluster {
  kubeconfig: string;
  /** A directory for files of tests. */
  dir: string;
  /** The path of the program. */
  kubectl: string;
  /** The paths of external-snapshotter's programs. */
  snapshotPrograms: Record<SnapshotProgramName, string>;
  /** An S3 server with the bucket `checkpoints`, at an address that Pods can reach. */
  s3: { endpoint: string; environment: Record<string, string> };
  /** An open registry and one with a password, as in image names. */
  registries: { open: string; protected: string };
}

declare module "vitest" {
  interface ProvidedContext {
    cluster: GivenCluster;
  }
}

/** Vitest's global setup: all tests share one cluster, which takes half a minute to start. */
export async function setup({ provide }: TestProject): Promise<() => Promise<void>> {
  const setting = JSON.parse(process.env["RAMET_TEST_KUBELET"] ?? "{}") as ClusterSetting;
  const { kubeconfig, s3, registries, stop } = await startCluster(setting);
  const { dir, tools } = setting;
  const { kubectl, ...snapshotPrograms } = tools;
  provide("cluster", { kubeconfig, s3, registries, dir, kubectl, snapshotPrograms });
  return stop;
}
