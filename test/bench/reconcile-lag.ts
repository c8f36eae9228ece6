import { type Checkpoint, checkpointKind } from "../../src/api/kinds/checkpoint.ts";
import { apiVersion } from "../../src/api/schema/kind.ts";
import { Pod } from "../../src/api/schema/pod.ts";
import { type Sandbox, sandboxKind } from "../../src/api/kinds/sandbox.ts";
import { findCondition } from "../../src/kube/conditions.ts";
import { Informer } from "../../src/kube/informer.ts";
import type { KubeClient } from "../../src/kube/kube-client.ts";
import type { KubeObject } from "../../src/kube/object.ts";
import { coreResources } from "../../src/kube/resource-ref.ts";
import { summary, type Summary } from "./samples.ts";

/** The time from a change until a watch shows the controller's reaction. One change at a time. */
export interface ReconcileLag {
  /** The first one is not a reconcile but the API server's share of the time. */
  change: "Pod written → seen by a watch" | "Pod (un)ready → Sandbox (un)ready" | "Checkpoint without sandbox → Failed";
  milliseconds: Summary;
}

interface LagRequest {
  namespace: string;
  /** Running sandboxes whose Pods were written by a stand-in. They are unchanged at the end. */
  sandboxes: readonly string[];
  signal: AbortSignal;
}

/**
 * Makes each sandbox's Pod unready and ready again, as a node would, and as often creates a Checkpoint of a sandbox that does
 * not exist.
 */
export async function measureReconcileLag(
  client: KubeClient,
  { namespace, sandboxes, signal }: LagRequest,
): Promise<ReconcileLag[]> {
  const end = new AbortController();
  const podWatch = new Informer({
    resource: client.resource(coreResources.pods, (value) => Pod.parse(value)),
    namespaces: [namespace],
  });
  const sandboxWatch = new Informer({
    resource: client.of(sandboxKind),
    namespaces: [namespace],
  });
  const checkpointWatch = new Informer({
    resource: client.of(checkpointKind),
    namespaces: [namespace],
  });
  const following = [podWatch.run(end.signal), sandboxWatch.run(end.signal), checkpointWatch.run(end.signal)];
  try {
    await Promise.all([podWatch.synced(signal), sandboxWatch.synced(signal), checkpointWatch.synced(signal)]);
    const [seen, answered, refused]: [number[], number[], number[]] = [[], [], []];
    for (const [number, name] of sandboxes.entries()) {
      for (const status of ["False", "True"] as const) {
        signal.throwIfAborted();
        const since = performance.now();
        const ended = (): number => performance.now() - since;
        const isRead = (pod: Pod): boolean => podReady(pod) === status;
        const isReported = (sandbox: Sandbox): boolean =>
          findCondition(sandbox.status?.conditions, "Ready")?.status === status;
        const [read, reported] = await Promise.all([
          until(podWatch, name, isRead).then(ended),
          until(sandboxWatch, name, isReported).then(ended),
          writeReady(podWatch, { namespace, name }, status),
        ]);
        seen.push(read);
        answered.push(reported);
        refused.push(await refusal(checkpointWatch, { namespace, name: `lag-${number}-${status.toLowerCase()}` }));
      }
    }
    return [
      { change: "Pod written → seen by a watch", milliseconds: summary(seen)! },
      { change: "Pod (un)ready → Sandbox (un)ready", milliseconds: summary(answered)! },
      { change: "Checkpoint without sandbox → Failed", milliseconds: summary(refused)! },
    ];
  } finally {
    end.abort();
    await Promise.all(following);
  }
}

function podReady({ status }: Pod): string | undefined {
  return status?.conditions?.find(({ type }) => type === "Ready")?.status;
}

async function writeReady(
  { resource }: Informer<Pod>,
  at: { namespace: string; name: string },
  status: "True" | "False",
): Promise<void> {
  const conditions = [{ type: "Ready", status, lastTransitionTime: new Date().toISOString() }];
  await resource.mergePatch(at, { status: { conditions } }, { subresource: "status" });
}

async function refusal(
  checkpoints: Informer<Checkpoint>,
  metadata: { namespace: string; name: string },
): Promise<number> {
  const since = performance.now();
  const isFailed = ({ status }: Checkpoint): boolean => status?.phase === "Failed";
  const [milliseconds] = await Promise.all([
    until(checkpoints, metadata.name, isFailed).then(() => performance.now() - since),
    checkpoints.resource.create({ apiVersion, kind: "Checkpoint", metadata, spec: { sandboxName: "nobody" } }),
  ]);
  await checkpoints.resource.delete(metadata);
  return milliseconds;
}

/** Resolves with the next change after which the condition holds. @throws Error on a timeout */
function until<T extends KubeObject>(informer: Informer<T>, name: string, isSo: (object: T) => boolean): Promise<void> {
  return new Promise((resolve, reject) => {
    const late = setTimeout(() => {
      stop();
      reject(
        new Error(
          `timed out waiting for a change of ${informer.resource.ref.plural} ${name}: ${timeoutMilliseconds} ms`,
        ),
      );
    }, timeoutMilliseconds);
    const stop = informer.store.subscribe(({ type, object }) => {
      if (type === "deleted" || object.metadata.name !== name || !isSo(object)) return;
      clearTimeout(late);
      stop();
      resolve();
    });
  });
}

const timeoutMilliseconds = 60_000;
