import { setTimeout as sleep } from "node:timers/promises";
import { type SandboxClaim, sandboxClaimKind } from "../../src/api/kinds/sandbox-claim.ts";
import { waitUntil } from "../../src/kube/wait-until.ts";
import type { Cluster } from "../cluster/controllers-cluster.ts";
import { summary, type Summary } from "./samples.ts";
import { firstAnswer } from "./workload.ts";

/** Claims of a user, one after another. */
export interface ClaimRun {
  n: number;
  /** Why claims ended without a sandbox that responds. */
  failed: string[];
  /** From the request of the others until the sandbox responded to an HTTP request. */
  milliseconds: Summary | undefined;
}

/** Claims a sandbox, sends it a request, deletes it and rests a second, again and again. */
export class ClaimsOneByOne {
  readonly #cluster: Cluster;
  readonly #at: { namespace: string; set: string };
  #count = 0;

  constructor(cluster: Cluster, at: { namespace: string; set: string }) {
    this.#cluster = cluster;
    this.#at = at;
  }

  /** @param isOver whether to stop after this number of claims */
  async run(isOver: (done: number) => boolean, signal: AbortSignal): Promise<ClaimRun> {
    const failed: string[] = [];
    const milliseconds: number[] = [];
    let n = 0;
    for (; !isOver(n) && !signal.aborted; n++) {
      const since = performance.now();
      try {
        await this.#claim(signal);
        milliseconds.push(performance.now() - since);
      } catch (error) {
        failed.push(error instanceof Error ? error.message : String(error));
      }
      await sleep(1_000);
    }
    return { n, failed, milliseconds: summary(milliseconds) };
  }

  async #claim(signal: AbortSignal): Promise<void> {
    const { client, seen } = this.#cluster;
    const { namespace, set } = this.#at;
    const claims = client.of(sandboxClaimKind);
    const from = await claims.create({
      apiVersion: sandboxClaimKind.apiVersion,
      kind: "SandboxClaim",
      metadata: { namespace, name: `claim-${this.#count++}` },
      spec: { templateName: set, ttlAfterCompleted: "1s" },
    });
    const until = (claim: SandboxClaim | undefined): boolean => claim?.status?.phase === "Completed";
    const claim = await waitUntil({ resource: claims, from, until, timeoutMilliseconds, signal });
    const [name] = claim?.status?.ramet?.sandboxes ?? [];
    if (name === undefined) throw new Error(claim?.status?.message ?? "the claim completed without a sandbox");
    const { status } = await seen.sandboxes.resource.get({ namespace, name });
    await firstAnswer(status?.sandboxIp ?? "");
    await seen.sandboxes.resource.delete({ namespace, name });
  }
}

/** More than a claim's own timeout. */
const timeoutMilliseconds = 180_000;
