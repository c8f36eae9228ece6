import type { TestProject } from "vitest/node";
import { startCluster, type ClusterSetting } from "./cluster.ts";

/** What a test is told of the cluster. */
export interface GivenCluster {
  kubeconfig: string;
  /** A directory for what tests write. */
  dir: string;
  /** The program. */
  kubectl: string;
  /** Of an S3 server that Pods reach, with the bucket `checkpoints`. */
  s3: { endpoint: string; environment: Record<string, string> };
}

declare module "vitest" {
  interface ProvidedContext {
    cluster: GivenCluster;
  }
}

/** Vitest's global set-up: one cluster for all tests, as it takes half a minute. */
export async function setup({ provide }: TestProject): Promise<() => Promise<void>> {
  const setting = JSON.parse(process.env["RAMET_TEST_KUBELET"] ?? "{}") as ClusterSetting;
  const { kubeconfig, s3, stop } = await startCluster(setting);
  provide("cluster", { kubeconfig, s3, dir: setting.dir, kubectl: setting.tools.kubectl });
  return stop;
}
