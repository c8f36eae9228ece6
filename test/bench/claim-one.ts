import { labels } from "../../src/api/names/labels.ts";
import { type SandboxClaim, sandboxClaimKind } from "../../src/api/kinds/sandbox-claim.ts";
import { sandboxSetKind } from "../../src/api/kinds/sandbox-set.ts";
import { refOf } from "../../src/kube/resource-ref.ts";
import { Informer } from "../../src/kube/informer.ts";
import { waitUntil } from "../../src/kube/wait-until.ts";
import { namespace, type LocalCluster } from "./local-cluster.ts";
import { summary, type Summary } from "./samples.ts";
import { firstAnswer, workloadCommand, workloadPort } from "./workload.ts";

/** Claims of real running sandboxes, one at a time: each waits until the set is full again. */
export interface ClaimTimes {
  n: number;
  /** Ready sandboxes before each. */
  stocked: number;
  /** Milliseconds from the request until it was seen as completed. */
  claimed: Summary;
  /** Milliseconds from the request until the sandbox responded to an HTTP request. */
  answering: Summary;
}

export async function measureClaims(cluster: LocalCluster, n: number, signal: AbortSignal): Promise<ClaimTimes> {
  const { client, sandboxes } = cluster.cluster;
  const sets = client.resource(refOf(sandboxSetKind));
  const claims = client.of(sandboxClaimKind);
  const main = { name: "main", image: "python", command: workloadCommand(0), ports: [{ containerPort: workloadPort }] };
  const set = await sets.create({
    apiVersion: sandboxSetKind.apiVersion,
    kind: "SandboxSet",
    metadata: { name: "claimed", namespace },
    spec: { replicas: stocked, template: { spec: { containers: [main] } } },
  });
  const seen = new Informer({ resource: claims, namespaces: [namespace] });
  const end = new AbortController();
  const following = seen.run(end.signal);
  await seen.synced(signal);
  const claimed: number[] = [];
  const answering: number[] = [];
  try {
    // The first one is a warm-up and is discarded.
    for (let turn = 0; turn <= n; turn++) {
      await waitUntil({
        resource: sets,
        from: await sets.get(set.metadata),
        until: isFull,
        timeoutMilliseconds,
        signal,
      });
      // A sandbox is Ready when its guest responds. Its program may still be starting.
      const stock = await sandboxes.list({ namespace, labelSelector: `${labels.sandboxClaimed}=false` });
      await Promise.all(stock.items.map(({ status }) => firstAnswer(status?.sandboxIp ?? "")));
      const name = `claim-${turn}`;
      const since = performance.now();
      const done = completed(seen, name);
      await claims.create({
        apiVersion: sandboxClaimKind.apiVersion,
        kind: "SandboxClaim",
        metadata: { name, namespace },
        spec: { templateName: set.metadata.name, ttlAfterCompleted: "1s" },
      });
      const [sandboxName = ""] = (await done).status?.ramet?.sandboxes ?? [];
      const claimedAfter = performance.now() - since;
      const sandbox = await sandboxes.get({ namespace, name: sandboxName });
      await firstAnswer(sandbox.status?.sandboxIp ?? "");
      if (turn > 0) {
        claimed.push(claimedAfter);
        answering.push(performance.now() - since);
      }
      await cluster.remove(sandboxes, sandbox);
    }
  } finally {
    end.abort();
    await following;
    await sets.delete(set.metadata);
  }
  return { n, stocked, claimed: summary(claimed)!, answering: summary(answering)! };
}

const stocked = 3;
const timeoutMilliseconds = 120_000;

function isFull(set: object | undefined): boolean {
  const { status } = (set ?? {}) as { status?: { availableReplicas?: number; replicas?: number } };
  return status?.availableReplicas === stocked && status.replicas === stocked;
}

function completed(seen: Informer<SandboxClaim>, name: string): Promise<SandboxClaim> {
  return new Promise((resolve) => {
    const stop = seen.store.subscribe(({ object }) => {
      if (object.metadata.name !== name || object.status?.phase !== "Completed") return;
      stop();
      resolve(object);
    });
  });
}
