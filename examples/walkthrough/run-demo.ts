import type { Cluster } from "../../src/cli/cluster/cluster.ts";
import { DemoCluster } from "./demo-cluster.ts";
import { Steps } from "./steps.ts";

/** The cluster and tools of a walk-through. */
export interface DemoContext {
  cluster: Cluster;
  /** The kubeconfig of the cluster's administrator, for the command line. */
  kubeconfigPath: string;
  steps: Steps;
  /** Aborted by Ctrl-C. After that, the demo only cleans up. */
  signal: AbortSignal;
}

/** Runs a walk-through on a separate cluster and removes the cluster. Returns the exit code. */
export async function runDemo(walkThrough: (context: DemoContext) => Promise<void>): Promise<number> {
  const interrupted = new AbortController();
  for (const name of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    process.on(name, () => {
      interrupted.abort(new Error("interrupted"));
    });
  }
  const { signal } = interrupted;
  const steps = new Steps();
  const demo = await DemoCluster.make();
  const failures: unknown[] = [];
  try {
    let cluster: Cluster | undefined;
    await steps.step("Start a Kubernetes control plane, controllers and a node", async () => {
      cluster = await demo.up(signal, (line) => {
        // The lines about tools and images, but not those that say that one is there.
        if (/^(image )?\S+ .*: /.test(line) && !line.includes(": found in ")) steps.note(line);
      });
      return "etcd, API server, controller and node run as processes of this user";
    });
    if (cluster !== undefined) await walkThrough({ cluster, kubeconfigPath: demo.kubeconfigPath, steps, signal });
  } catch (error) {
    if (!signal.aborted) failures.push(error);
  }
  const end = steps.step("Delete the cluster", async () => {
    const left = await demo.down();
    if (left.length > 0) throw new Error(`orphans: ${left.join("; ")}`);
    return "no process, mount or file remains";
  });
  await end.catch((error: unknown) => failures.push(error));
  console.log(`\n${steps.table()}`);
  for (const failure of failures)
    console.error("\nThe demo failed:", failure instanceof Error ? failure.message : failure);
  if (failures.length > 0) return 1;
  if (signal.aborted) return 130;
  console.log("\nAll steps succeeded.");
  return 0;
}
