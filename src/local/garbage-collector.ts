import { RametError, unlessCode } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import type { OwnerReference } from "../api/schema/metadata.ts";
import { type ReconcileResult, runController } from "../kube/controller.ts";
import type { KubeClient } from "../kube/kube-client.ts";
import { coreResources } from "../kube/resource-ref.ts";
import { FollowedResources, type Found, type Owned } from "./followed-resources.ts";

/**
 * Does for a local cluster what the garbage collector and the namespace controller of kube-controller-manager do on others: deletes
 * objects whose owners were deleted, ends deletions in the foreground and with orphans, and empties deleted namespaces. Runs until
 * `signal` aborts.
 *
 * @param client reads only metadata (`metadataOnly`)
 */
export async function collectGarbage(
  { client, log }: { client: KubeClient; log?: Log },
  signal: AbortSignal,
): Promise<void> {
  const collector = new GarbageCollector(client, signal);
  const controller = {
    name: "local-garbage",
    watches: [],
    reconcile: (key: string) => collector.reconcile(key),
    clock: client.clock,
    backoff: pauses,
    ...(log && { log }),
  };
  await runController(controller, signal, (add) => {
    collector.start(add);
  });
  await collector.ended();
}

/** `waiting`: it is deleted when its dependents are. `unknown`: the API server does not serve its kind. */
type OwnerState = "present" | "waiting" | "gone" | "unknown";

/** The key that follows the resources that the API server serves now. All other keys are UIDs. */
const resourcesKey = "resources";
const foreground = "foregroundDeletion";
const orphan = "orphan";

/** Nothing is collected before the collector follows all resources. */
const unready = { requeueAfterMilliseconds: 500 };
/** Until then, the API server may still report the versions that a CRD had before its change. */
const undiscovered = { requeueAfterMilliseconds: 5_000 };
/** The pauses of a key whose work is not done. */
const pauses = { baseMilliseconds: 500, maxMilliseconds: 30_000, jitter: 0 };
const undone = { failure: new RametError("Unavailable", "It waits for other deletions", { retryable: true }) };

class GarbageCollector {
  readonly #client: KubeClient;
  readonly #followed: FollowedResources;
  #add: (key: string) => void = () => undefined;

  constructor(client: KubeClient, signal: AbortSignal) {
    this.#client = client;
    const onChange = (uid: string): void => {
      this.#add(uid);
    };
    this.#followed = new FollowedResources(
      client,
      {
        onChange,
        onStale: () => {
          this.#add(resourcesKey);
        },
      },
      signal,
    );
  }

  start(add: (key: string) => void): void {
    this.#add = add;
    add(resourcesKey);
  }

  ended(): Promise<void> {
    return this.#followed.ended();
  }

  async reconcile(key: string): Promise<ReconcileResult> {
    if (key === resourcesKey) return this.#followResources();
    if (!this.#followed.hasFollowed) return unready;
    const found = this.#followed.find(key);
    if (found?.object.metadata.deletionTimestamp !== undefined)
      return (await this.#finishDeletion(found)) ? undefined : undone;
    if (found !== undefined) return this.#collect(found);
    for (const { object } of this.#followed.dependentsOf(key)) this.#add(object.metadata.uid);
  }

  async #followResources(): Promise<ReconcileResult> {
    const outcome = await this.#followed.follow();
    if (outcome === "incomplete") return undone;
    if (outcome !== "complete") return outcome === "stale" ? unready : undiscovered;
  }

  /** Deletes an object that only has owners that are gone, or that wait for it. */
  async #collect({ followed: { informer }, object: { metadata } }: Found): Promise<void> {
    const { ownerReferences: owners = [], uid, resourceVersion, finalizers = [], namespace } = metadata;
    if (owners.length === 0) return;
    const states = await Promise.all(owners.map((owner) => this.#stateOf(owner, namespace)));
    if (states.includes("unknown")) return;
    const present = owners.filter((_, index) => states[index] === "present");
    if (present.length === owners.length) return;
    const { resource } = informer;
    if (present.length > 0) {
      await resource.mergePatch(metadata, { metadata: { uid, resourceVersion, ownerReferences: present } });
      return;
    }
    // An owner that waits for this object also waits for the objects that this one owns.
    const isWaitedFor = states.includes("waiting") && this.#followed.dependentsOf(uid).length > 0;
    const inForeground = isWaitedFor || finalizers.includes(foreground);
    const propagationPolicy = finalizers.includes(orphan) ? "Orphan" : inForeground ? "Foreground" : "Background";
    await resource.delete(metadata, { uid, resourceVersion, propagationPolicy });
  }

  async #stateOf(owner: OwnerReference, namespace?: string): Promise<OwnerState> {
    const known = this.#followed.find(owner.uid)?.object.metadata;
    if (known === undefined) return this.#readStateOf(owner, namespace);
    const isWaiting = known.deletionTimestamp !== undefined && known.finalizers?.includes(foreground) === true;
    return isWaiting ? "waiting" : "present";
  }

  /**
   * An informer may be behind, so the API server confirms that an owner is gone. It lists, because a version that is not served any
   * more answers the request for an object as if the object did not exist.
   */
  async #readStateOf({ apiVersion, kind, name, uid }: OwnerReference, namespace?: string): Promise<OwnerState> {
    const resource = this.#followed.resourceOf(apiVersion, kind);
    // An object without a namespace cannot be owned by one in a namespace.
    if (resource === undefined || (resource.ref.namespaced && namespace === undefined)) return "unknown";
    const list = await resource
      .list({ ...(resource.ref.namespaced && { namespace }), fieldSelector: `metadata.name=${name}` })
      .catch(unlessCode("NotFound"));
    if (list === undefined) {
      this.#followed.readAgain();
      return "unknown";
    }
    return list.items.some(({ metadata }) => metadata.uid === uid) ? "present" : "gone";
  }

  /** @returns whether the work is done */
  async #finishDeletion(found: Found): Promise<boolean> {
    const { followed, object } = found;
    const { uid, finalizers = [] } = object.metadata;
    const { resource } = followed.informer;
    if (resource.ref.kind === coreResources.namespaces.kind && resource.ref.group === "")
      return this.#emptyNamespace(object);
    if (!finalizers.includes(foreground) && !finalizers.includes(orphan)) return true;
    if (!this.#followed.knowsAllObjects) return false;
    const dependents = this.#followed.dependentsOf(uid);
    if (finalizers.includes(orphan)) {
      await Promise.all(dependents.map((dependent) => disown(dependent, uid)));
      await resource.removeFinalizer(object, orphan);
      return true;
    }
    const blocking = dependents.filter(({ object: { metadata } }) =>
      metadata.ownerReferences?.some((owner) => owner.uid === uid && owner.blockOwnerDeletion === true),
    );
    // Each that is deleted enqueues its owner.
    for (const one of blocking) this.#add(one.object.metadata.uid);
    if (blocking.length === 0) await resource.removeFinalizer(object, foreground);
    return true;
  }

  /** Deletes what is left in a namespace, and then lets it go. @returns whether it is empty */
  async #emptyNamespace({ metadata: { name, uid } }: Owned): Promise<boolean> {
    const namespaces = this.#client.resource(coreResources.namespaces);
    const metadata = (await namespaces.find({ name }))?.metadata;
    if (metadata?.uid !== uid || metadata.deletionTimestamp === undefined) return true;
    const hasAll = this.#followed.isComplete();
    const left = await Promise.all(
      this.#followed.all.map(async ({ informer: { resource } }) => {
        if (!resource.ref.namespaced) return 0;
        const { items } = await resource.list({ namespace: name });
        const remaining = items.filter((item) => item.metadata.deletionTimestamp === undefined);
        await Promise.all(remaining.map((item) => resource.delete(item.metadata, { uid: item.metadata.uid })));
        return items.length;
      }),
    );
    if (!hasAll || !this.#followed.isComplete() || left.some((count) => count > 0)) return false;
    const manifest = { apiVersion: "v1", kind: "Namespace", metadata, spec: { finalizers: [] } };
    await namespaces.update(manifest, { subresource: "finalize" });
    return true;
  }
}

async function disown({ followed: { informer }, object: { metadata } }: Found, owner: string): Promise<void> {
  const { uid, resourceVersion, ownerReferences = [] } = metadata;
  const others = ownerReferences.filter((one) => one.uid !== owner);
  const patch = { metadata: { uid, resourceVersion, ownerReferences: others } };
  await informer.resource.mergePatch(metadata, patch).catch(unlessCode("NotFound"));
}
