import type { Pod } from "../../api/schema/pod.ts";
import type { Clock } from "../../base/clock.ts";
import type { Informer } from "../../kube/informer.ts";
import { keyOf } from "../../kube/object.ts";

export interface NewPodsOptions {
  pods: Pick<Informer<Pod>, "store">;
  clock: Clock;
  /** Called with the key of a Pod that the informer has not shown for ten seconds: it was deleted before it was seen. */
  onLost: (key: string) => void;
}

/** Pods that this process has created and that the informer has not shown yet. */
export class NewPods {
  readonly #options: NewPodsOptions;
  readonly #bySandboxUid = new Map<string, { pod: Pod; cancel: () => void }>();
  /** When this process requested a Pod, by the Pod's UID. Removed with the Pod. */
  readonly #createdAt = new Map<string, number>();

  constructor(options: NewPodsOptions) {
    this.#options = options;
    options.pods.store.subscribe((change) => {
      const { uid } = change.object.metadata;
      for (const [sandboxUid, { pod }] of this.#bySandboxUid) if (pod.metadata.uid === uid) this.#forget(sandboxUid);
      if (change.type === "deleted") this.#createdAt.delete(uid);
    });
  }

  add(sandboxUid: string, pod: Pod, startedAt: number): void {
    const { uid } = pod.metadata;
    this.#forget(sandboxUid);
    this.#createdAt.set(uid, startedAt);
    // The informer may have been faster than the response.
    if (this.#options.pods.store.byUid(uid) !== undefined) return;
    const cancel = this.#options.clock.schedule(trustedMilliseconds, () => {
      this.#bySandboxUid.delete(sandboxUid);
      this.#createdAt.delete(uid);
      this.#options.onLost(keyOf(pod.metadata));
    });
    this.#bySandboxUid.set(sandboxUid, { pod, cancel });
  }

  get(sandboxUid: string): Pod | undefined {
    return this.#bySandboxUid.get(sandboxUid)?.pod;
  }

  /** Milliseconds since this process requested the Pod; undefined for other Pods. */
  ageMilliseconds(podUid: string): number | undefined {
    const at = this.#createdAt.get(podUid);
    return at === undefined ? undefined : Math.round(this.#options.clock.monotonicMilliseconds() - at);
  }

  close(): void {
    for (const sandboxUid of this.#bySandboxUid.keys()) this.#forget(sandboxUid);
  }

  #forget(sandboxUid: string): void {
    this.#bySandboxUid.get(sandboxUid)?.cancel();
    this.#bySandboxUid.delete(sandboxUid);
  }
}

const trustedMilliseconds = 10_000;
