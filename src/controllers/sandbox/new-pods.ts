import type { Pod } from "../../api/pod.ts";
import type { Clock } from "../../kube/clock.ts";
import type { Informer } from "../../kube/informer.ts";

/** Pods that were created a moment ago and that the informer has not shown yet. */
export class NewPods {
  readonly #clock: Clock;
  readonly #bySandboxUid = new Map<string, { pod: Pod; at: number }>();
  /** When this process asked for a Pod, by the Pod's UID. Goes with the Pod. */
  readonly #createdAt = new Map<string, number>();

  constructor(pods: Informer<Pod>, clock: Clock) {
    this.#clock = clock;
    pods.store.subscribe((change) => {
      for (const [sandboxUid, { pod }] of this.#bySandboxUid) {
        if (pod.metadata.uid === change.object.metadata.uid) this.#bySandboxUid.delete(sandboxUid);
      }
      if (change.type === "deleted") this.#createdAt.delete(change.object.metadata.uid);
    });
  }

  add(sandboxUid: string, pod: Pod, startedAt: number): void {
    this.#bySandboxUid.set(sandboxUid, { pod, at: this.#clock.monotonicMilliseconds() });
    this.#createdAt.set(pod.metadata.uid, startedAt);
  }

  /** Undefined also when the informer never showed it for long: then it is gone by now. */
  get(sandboxUid: string): Pod | undefined {
    const known = this.#bySandboxUid.get(sandboxUid);
    if (known === undefined) return undefined;
    if (this.#clock.monotonicMilliseconds() - known.at < trustedMilliseconds) return known.pod;
    this.#bySandboxUid.delete(sandboxUid);
    return undefined;
  }

  /** Milliseconds since the Pod was asked for, if that was by this process. */
  ageMilliseconds(podUid: string): number | undefined {
    const at = this.#createdAt.get(podUid);
    return at === undefined ? undefined : Math.round(this.#clock.monotonicMilliseconds() - at);
  }
}

const trustedMilliseconds = 10_000;
