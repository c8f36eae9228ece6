import { annotations, labels } from "../../src/api/names/labels.ts";
import type { Sandbox } from "../../src/api/kinds/sandbox.ts";
import type { Cluster } from "../../src/cli/cluster/cluster.ts";
import { isConditionTrue } from "../../src/kube/conditions.ts";
import { Informer } from "../../src/kube/informer.ts";
import { controllerOf } from "../../src/kube/object.ts";

const timeoutMilliseconds = 120_000;

/** Sees every change of a set's unclaimed sandboxes, and keeps how few were ready at the worst moment. */
export class SetWatch {
  readonly #sandboxes: Informer<Sandbox>;
  readonly #set: string;
  readonly #end = new AbortController();
  readonly #following: Promise<void>;
  #fewestReady = Infinity;

  private constructor({ sandboxes, namespace }: Cluster, set: string) {
    const labelSelector = `${labels.sandboxPool}=${set}`;
    this.#sandboxes = new Informer({ resource: sandboxes, namespace, labelSelector });
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

  /** Those that could be claimed just now. */
  get ready(): Sandbox[] {
    return this.#members.filter(({ status }) => isConditionTrue(status?.conditions, "Ready"));
  }

  get isRolling(): boolean {
    return this.#revisions.size > 1;
  }

  /** Since `restart`. */
  get fewestReady(): number {
    return this.#fewestReady;
  }

  restart(): void {
    this.#fewestReady = this.ready.length;
  }

  /** Until the set holds so many, all ready and of one revision. @throws TimeoutError, or what `signal` was aborted with */
  untilSettled(replicas: number, signal: AbortSignal): Promise<void> {
    return this.#until(
      () => this.#members.length === replicas && this.ready.length === replicas && !this.isRolling,
      signal,
    );
  }

  /** Until sandboxes of two revisions are in the set. @throws TimeoutError, or what `signal` was aborted with */
  untilRolling(signal: AbortSignal): Promise<void> {
    return this.#until(() => this.isRolling, signal);
  }

  /** What is claimed or on its way out counts no more. */
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
    const look = (): void => {
      if (holds()) resolve(undefined);
    };
    const stop = this.#sandboxes.store.subscribe(look);
    const abort = (): void => {
      reject(over.reason as Error);
    };
    over.addEventListener("abort", abort, { once: true });
    try {
      over.throwIfAborted();
      look();
      await promise;
    } finally {
      stop();
      over.removeEventListener("abort", abort);
    }
  }
}
