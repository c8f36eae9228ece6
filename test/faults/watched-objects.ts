import { setTimeout as sleep } from "node:timers/promises";
import type { Checkpoint } from "../../src/api/kinds/checkpoint.ts";
import type { NamedSnapshot } from "../../src/api/kinds/named-snapshot.ts";
import type { Pod } from "../../src/api/schema/pod.ts";
import type { Sandbox } from "../../src/api/kinds/sandbox.ts";
import type { SandboxClaim } from "../../src/api/kinds/sandbox-claim.ts";
import type { SandboxSet } from "../../src/api/kinds/sandbox-set.ts";
import { createInformers, type Informers } from "../../src/controllers/cluster/resources.ts";
import type { Informer } from "../../src/kube/informer.ts";
import type { KubeClient } from "../../src/kube/kube-client.ts";
import { silentLog } from "../../src/base/log.ts";
import type { KubeObject } from "../../src/kube/object.ts";

/** A live view of the API server's objects. A test uses it to kill a process as soon as a step shows. */
export class WatchedObjects {
  readonly #informers: Informers;
  readonly #stop = new AbortController();
  readonly #running: Promise<void>[];

  private constructor(client: KubeClient) {
    this.#informers = createInformers(client, silentLog);
    this.#running = this.#all.map((informer) => informer.run(this.#stop.signal));
  }

  static async open(client: KubeClient): Promise<WatchedObjects> {
    const objects = new WatchedObjects(client);
    await Promise.all(objects.#all.map((informer) => informer.synced()));
    return objects;
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await Promise.all(this.#running);
  }

  get sandboxes(): Sandbox[] {
    return this.#informers.sandboxes.store.list();
  }

  get pods(): Pod[] {
    return this.#informers.pods.store.list();
  }

  get checkpoints(): Checkpoint[] {
    return this.#informers.checkpoints.store.list();
  }

  set(key: string): SandboxSet | undefined {
    return this.#informers.sets.store.get(key);
  }

  claim(key: string): SandboxClaim | undefined {
    return this.#informers.claims.store.get(key);
  }

  snapshot(key: string): NamedSnapshot | undefined {
    return this.#informers.snapshots.store.get(key);
  }

  /** Calls `listener` at each change. Returns a function that unsubscribes it. */
  onChange(listener: () => void): () => void {
    const ends = this.#all.map((informer) => informer.store.subscribe(listener));
    return () => {
      for (const end of ends) end();
    };
  }

  /** Resolves when `condition` is true. @throws Error after two minutes */
  async until(what: string, condition: () => boolean): Promise<void> {
    const seen = Promise.withResolvers<"seen">();
    const check = (): void => {
      if (condition()) seen.resolve("seen");
    };
    const end = this.onChange(check);
    const finished = new AbortController();
    try {
      check();
      const late = sleep(limitMilliseconds, "late" as const, { signal: finished.signal }).catch(() => "late" as const);
      if ((await Promise.race([seen.promise, late])) === "late") throw new Error(`timed out waiting for: ${what}`);
    } finally {
      end();
      finished.abort();
    }
  }

  get #all(): Informer<KubeObject>[] {
    return Object.values(this.#informers) as Informer<KubeObject>[];
  }
}

const limitMilliseconds = 120_000;
