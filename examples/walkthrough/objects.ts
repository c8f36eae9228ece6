import type { Checkpoint } from "../../src/api/kinds/checkpoint.ts";
import type { Contents } from "../../src/api/schema/metadata.ts";
import type { Sandbox } from "../../src/api/kinds/sandbox.ts";
import type { Cluster } from "../../src/cli/cluster/cluster.ts";
import { isConditionTrue } from "../../src/kube/conditions.ts";
import { waitUntil } from "../../src/kube/wait-until.ts";

const apiVersion = "agents.kruise.io/v1alpha1";
const timeoutMilliseconds = 120_000;

/** The Pod template of the walk-through. It declares what runs, not how it is captured. */
const template = {
  metadata: { labels: { agent: "code-demo" } },
  spec: {
    automountServiceAccountToken: false,
    containers: [{ name: "my-session", image: "python", command: ["sleep", "infinity"] }],
  },
};

/** Creates a sandbox, or with `checkpointId` a clone, and waits until it is Ready. */
export async function createSandbox(
  { sandboxes }: Cluster,
  { name, checkpointId, signal }: { name: string; checkpointId?: string; signal: AbortSignal },
): Promise<Sandbox> {
  const annotations = checkpointId === undefined ? {} : { "checkpoint.alibabacloud.com/restore-from": checkpointId };
  const metadata = { name, namespace: "default", annotations };
  const from = await sandboxes.create({ apiVersion, kind: "Sandbox", metadata, spec: { template } }, { signal });
  const until = (sandbox: Sandbox | undefined): boolean => {
    const { phase, message, conditions } = sandbox?.status ?? {};
    if (phase === "Failed") throw new Error(`the sandbox ${name} failed: ${message ?? JSON.stringify(conditions)}`);
    return isConditionTrue(conditions, "Ready");
  };
  const ready = await waitUntil({ resource: sandboxes, from, until, timeoutMilliseconds, signal });
  if (ready === undefined) throw new Error(`the sandbox ${name} was deleted`);
  return ready;
}

/** Creates a checkpoint of a sandbox, which keeps running, and waits until the checkpoint can be cloned. */
export async function createCheckpoint(
  { checkpoints }: Cluster,
  { name, podName, contents, signal }: { name: string; podName: string; contents: Contents; signal: AbortSignal },
): Promise<Checkpoint> {
  const spec = { podName, keepRunning: true, ttlAfterFinished: "30h", persistentContents: contents };
  const metadata = { name, namespace: "default" };
  const from = await checkpoints.create({ apiVersion, kind: "Checkpoint", metadata, spec }, { signal });
  const until = (checkpoint: Checkpoint | undefined): boolean => {
    const { phase, message } = checkpoint?.status ?? {};
    if (phase === "Failed") throw new Error(`the checkpoint ${name} failed: ${message ?? "no reason given"}`);
    return phase === "Succeeded";
  };
  const done = await waitUntil({ resource: checkpoints, from, until, timeoutMilliseconds, signal });
  if (done === undefined) throw new Error(`the checkpoint ${name} was deleted`);
  return done;
}

/** Deletes a checkpoint and waits until it no longer exists. */
export async function deleteCheckpoint(
  { checkpoints }: Cluster,
  checkpoint: Checkpoint,
  signal: AbortSignal,
): Promise<void> {
  await checkpoints.delete(checkpoint.metadata, { signal });
  const from = await checkpoints.find(checkpoint.metadata, { signal });
  if (from === undefined) return;
  const until = (found: Checkpoint | undefined): boolean => found === undefined;
  await waitUntil({ resource: checkpoints, from, until, timeoutMilliseconds, signal });
}
