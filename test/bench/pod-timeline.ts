import * as z from "zod";
import type { KubeClient } from "../../src/kube/kube-client.ts";
import { coreResources } from "../../src/kube/resource-ref.ts";
import { namespace } from "./local-cluster.ts";

const SeenPod = z.looseObject({
  metadata: z.looseObject({ name: z.string() }),
  spec: z.looseObject({ nodeName: z.string().optional() }),
  status: z.looseObject({ phase: z.string().optional() }).optional(),
});

/** When a separate watch saw a Pod in each state, in milliseconds of this process's clock. */
export interface PodInstants {
  made?: number;
  bound?: number;
  running?: number;
}

/** Watches all Pods of a run, to observe the controllers from outside. */
export class PodTimeline {
  readonly #instants = new Map<string, PodInstants>();
  readonly #over = new AbortController();
  readonly #following: Promise<void>;

  constructor(client: KubeClient) {
    this.#following = this.#follow(client).catch(() => undefined);
  }

  of(name: string): PodInstants {
    return this.#instants.get(name) ?? {};
  }

  async close(): Promise<void> {
    this.#over.abort();
    await this.#following;
  }

  async #follow(client: KubeClient): Promise<void> {
    const pods = client.resource(coreResources.pods);
    const { signal } = this.#over;
    while (!signal.aborted) {
      const { resourceVersion } = await pods.list({ namespace, signal });
      const watch = { namespace, resourceVersion, timeoutSeconds: 300, stallMilliseconds: 600_000, signal };
      for await (const event of pods.watch(watch)) {
        if (event.type !== "ADDED" && event.type !== "MODIFIED") continue;
        const { metadata, spec, status } = SeenPod.parse(event.object);
        const seen = this.#instants.get(metadata.name) ?? {};
        const now = performance.now();
        seen.made ??= now;
        if (spec.nodeName !== undefined) seen.bound ??= now;
        if (status?.phase === "Running") seen.running ??= now;
        this.#instants.set(metadata.name, seen);
      }
    }
  }
}
