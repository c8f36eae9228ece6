import { annotations, labels } from "../../src/api/names/labels.ts";
import type { Sandbox } from "../../src/api/kinds/sandbox.ts";
import type { Cluster } from "../../src/cli/cluster/cluster.ts";
import { isConditionTrue } from "../../src/kube/conditions.ts";
import { Informer } from "../../src/kube/informer.ts";
import { controllerOf } from "../../src/kube/object.ts";

const timeoutMilliseconds = 120_000;

/** Watches the unclaimed sandboxes of a set and records the lowest number of ready ones. */
export class SetWatch {
  readonly #sandboxes: Informer<Sandbox>;
  readonly #set: string;
  readonly #end = new AbortController();
  readonly #following: Promise<void>;
  #fewestReady = Infinity;

  private constructor({ sandboxes, namespace }: Cluster, set: string) {
    const labelSelector = `${labels.sandboxPool}=${set}`;
    this.#sandboxes = new Informer({ resource: sandboxes, namespaces: [namespace], labelSelector });
    this.#set = set;
    this.#following = this.#sandboxes.run(this.#end.signal);
    this.#sandboxes.store.subscribe(() => {
      this.#fewestReady = Math.min(this.#fewestReady, this.ready.length);
    });
  }

  static async open(cluster: Cluster, set: string, signal: AbortSignal): Promise<SetWatch> {
    const watch = new SetWatch(cluster, set);
    await watch.#sandboxes.synced(signal);
    return watch;
  }

  async close(): Promise<void> {
    this.#end.abort();
    await this.#following;
  }

  /** The sandboxes that can be claimed now. */
  get ready(): Sandbox[] {
    return this.#members.filter(({ status }) => isConditionTrue(status?.conditions, "Ready"));
  }

  get isRolling(): boolean {
    return this.#revisions.size > 1;
  }

  /** The lowest number of ready sandboxes since `restart`. */
  get fewestReady(): number {
    return this.#fewestReady;
  }

  restart(): void {
    this.#fewestReady = this.ready.length;
  }

  /** Waits until the set has `replicas` ready sandboxes of one revision. @throws TimeoutError, or the reason of `signal` */
  untilSettled(replicas: number, signal: AbortSignal): Promise<void> {
    return this.#until(
      () => this.#members.length === replicas && this.ready.length === replicas && !this.isRolling,
      signal,
    );
  }

  /** Waits until the set has sandboxes of two revisions. @throws TimeoutError, or the reason of `signal` */
  untilRolling(signal: AbortSignal): Promise<void> {
    return this.#until(() => this.isRolling, signal);
  }

  /** The sandboxes of the set that are neither claimed nor being deleted. */
  get #members(): Sandbox[] {
    return this.#sandboxes.store.list().filter((sandbox) => {
      const { deletionTimestamp, annotations: own = {} } = sandbox.metadata;
      const owner = controllerOf(sandbox);
      const isOwned = owner?.kind === "SandboxSet" && owner.name === this.#set;
      return isOwned && deletionTimestamp === undefined && own[annotations.lock] === undefined;
    });
  }

  get #revisions(): Set<string | undefined> {
    return new Set(this.#members.map(({ metadata }) => metadata.labels?.[labels.templateHash]));
  }

  async #until(holds: () => boolean, signal: AbortSignal): Promise<void> {
    const over = AbortSignal.any([signal, AbortSignal.timeout(timeoutMilliseconds)]);
    const { promise, resolve, reject } = Promise.withResolvers<undefined>();
    const check = (): void => {
      if (holds()) resolve(undefined);
    };
    const stop = this.#sandboxes.store.subscribe(check);
    const abort = (): void => {
      reject(over.reason as Error);
    };
    over.addEventListener("abort", abort, { once: true });
    try {
      over.throwIfAborted();
      check();
      await promise;
    } finally {
      stop();
      over.removeEventListener("abort", abort);
    }
  }
}
