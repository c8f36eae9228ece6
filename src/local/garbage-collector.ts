import * as z from "zod";
import { backoffMilliseconds } from "../base/backoff.ts";
import { unlessCode } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import { within } from "../base/within.ts";
import type { OwnerReference } from "../api/schema/metadata.ts";
import { type ReconcileResult, runController } from "../kube/controller.ts";
import { Informer } from "../kube/informer.ts";
import type { KubeClient } from "../kube/kube-client.ts";
import { ObjectMeta } from "../kube/object.ts";
import { apiVersionOf, coreResources, pathOf, type ResourceRef } from "../kube/resource-ref.ts";
import { isServed, kindKey, servedResources } from "./served-resources.ts";

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
    ...(log && { log }),
  };
  await runController(controller, signal, (add) => {
    collector.start(add);
  });
  await collector.ended();
}

/** The metadata that the collector keeps. */
const Owned = z.object({
  metadata: z.object(
    ObjectMeta.pick({
      name: true,
      namespace: true,
      uid: true,
      resourceVersion: true,
      deletionTimestamp: true,
      finalizers: true,
      ownerReferences: true,
    }).shape,
  ),
});
type Owned = z.infer<typeof Owned>;

/** A resource of the API server that can have garbage. */
interface Followed {
  informer: Informer<Owned>;
  /** The objects that an owner with this UID has. */
  dependentsOf: (uid: string) => Owned[];
  stop: AbortController;
  running: Promise<void>;
}

interface Found {
  followed: Followed;
  object: Owned;
}

/** `waiting`: it is deleted when its dependents are. `unknown`: the API server does not serve its kind. */
type OwnerState = "present" | "waiting" | "gone" | "unknown";

/** The key that follows the resources that the API server serves now. All other keys are UIDs. */
const resourcesKey = "resources";
const foreground = "foregroundDeletion";
const orphan = "orphan";

/** How long one resource that cannot be listed delays the others. */
const longestListMilliseconds = 3_000;
/** Nothing is collected before the collector follows all resources. */
const unreadyMilliseconds = 500;
/** Until then, the API server may still report the versions that a CRD had before its change. */
const discoveryMilliseconds = 5_000;
/** The pauses of a key whose work is not done. */
const pauses = { baseMilliseconds: 500, maxMilliseconds: 30_000, jitter: 0 };

class GarbageCollector {
  readonly #client: KubeClient;
  readonly #signal: AbortSignal;
  /** By group and kind. */
  readonly #followed = new Map<string, Followed>();
  #add: (key: string) => void = () => undefined;
  /** Whether the collector has once followed all resources that it found. */
  #hasFollowed = false;
  /** Whether it follows all resources that can have objects. False again when a CRD changes. */
  #isComplete = false;
  /** How often CRDs have changed, and up to which of these changes all resources are followed. */
  #crdChanges = 0;
  #followedChanges = 0;
  /** How often each key was requeued. */
  readonly #requeues = new Map<string, number>();

  constructor(client: KubeClient, signal: AbortSignal) {
    this.#client = client;
    this.#signal = signal;
  }

  start(add: (key: string) => void): void {
    this.#add = add;
    add(resourcesKey);
  }

  async ended(): Promise<void> {
    await Promise.all([...this.#followed.values()].map(({ running }) => running));
  }

  async reconcile(key: string): Promise<ReconcileResult> {
    if (key === resourcesKey) return this.#followResources();
    if (!this.#hasFollowed) return { requeueAfterMilliseconds: unreadyMilliseconds };
    const found = this.#find(key);
    const isDone = found === undefined ? this.#collectDependents(key) : await this.#reconcileObject(found);
    if (isDone) this.#requeues.delete(key);
    else return this.#requeue(key);
  }

  #requeue(key: string): ReconcileResult {
    const earlier = this.#requeues.get(key) ?? 0;
    this.#requeues.set(key, earlier + 1);
    return { requeueAfterMilliseconds: backoffMilliseconds(pauses, earlier, Math.random) };
  }

  #collectDependents(uid: string): true {
    for (const { object } of this.#dependentsOf(uid)) this.#add(object.metadata.uid);
    return true;
  }

  /** @returns whether the work is done; otherwise the object is requeued */
  async #reconcileObject(found: Found): Promise<boolean> {
    if (found.object.metadata.deletionTimestamp !== undefined) return this.#finishDeletion(found);
    await this.#collect(found);
    return true;
  }

  /** Follows each resource that has objects to delete, and no longer those that are gone or have changed. */
  async #followResources(): Promise<ReconcileResult> {
    const changes = this.#crdChanges;
    const { served, unreadGroups } = await servedResources(this.#client, this.#signal);
    const names = new Map(served.map((ref) => [kindKey(apiVersionOf(ref), ref.kind), ref]));
    for (const [name, { informer, stop }] of this.#followed) {
      const now = names.get(name);
      const { ref } = informer.resource;
      if (now === undefined ? unreadGroups.has(ref.group) : isSame(now, ref)) continue;
      stop.abort();
      this.#followed.delete(name);
    }
    const isNew = await this.#followAll(names);
    const isComplete = unreadGroups.size === 0 && (await this.#hasAllOf(served));
    this.#hasFollowed = true;
    // The owners of garbage may be of a kind that was unknown when the garbage was seen.
    if (isNew) this.#addAllOwned();
    if (this.#crdChanges !== changes) return { requeueAfterMilliseconds: unreadyMilliseconds };
    this.#isComplete = isComplete;
    if (!isComplete) return this.#requeue(resourcesKey);
    this.#requeues.delete(resourcesKey);
    if (this.#followedChanges === changes) return;
    this.#followedChanges = changes;
    // A new version of a CRD is served a moment later.
    return { requeueAfterMilliseconds: discoveryMilliseconds };
  }

  /** One after another: the cluster has just started, and its user waits for other things. */
  async #followAll(names: ReadonlyMap<string, ResourceRef>): Promise<boolean> {
    let isNew = false;
    for (const [name, ref] of names) {
      if (this.#followed.has(name)) continue;
      isNew = true;
      const followed = this.#follow(ref);
      this.#followed.set(name, followed);
      const { clock } = this.#client;
      const what = `Listing ${ref.plural}`;
      await within({ clock, milliseconds: longestListMilliseconds, what, signal: this.#signal }, (signal) =>
        followed.informer.synced(signal),
      ).catch(unlessCode("Timeout"));
    }
    return isNew;
  }

  /** Whether the served resources include those of all CRDs. */
  async #hasAllOf(served: readonly ResourceRef[]): Promise<boolean> {
    const crds = this.#followed.get(kindKey("apiextensions.k8s.io/v1", coreResources.crds.kind))?.informer;
    if (crds === undefined || !isListed(crds)) return false;
    const plurals = new Set(served.map(({ plural, group }) => `${plural}.${group}`));
    for (const { metadata } of crds.store.list()) {
      if (plurals.has(metadata.name)) continue;
      if (await isServed(this.#client, metadata.name, this.#signal)) return false;
    }
    return true;
  }

  #addAllOwned(): void {
    for (const { informer } of this.#followed.values()) {
      for (const { metadata } of informer.store.list()) if (metadata.ownerReferences?.length) this.#add(metadata.uid);
    }
  }

  #follow(ref: ResourceRef): Followed {
    const stop = new AbortController();
    const informer = new Informer({ resource: this.#client.resource(ref, (value) => Owned.parse(value)) });
    const dependentsOf = informer.store.index(({ metadata }) => (metadata.ownerReferences ?? []).map(({ uid }) => uid));
    informer.onChange(({ object: { metadata } }) => {
      if (ref.kind === coreResources.crds.kind) this.#readResourcesAgain();
      for (const uid of [metadata.uid, ...(metadata.ownerReferences ?? []).map((owner) => owner.uid)]) this.#add(uid);
    });
    return { informer, dependentsOf, stop, running: informer.run(AbortSignal.any([this.#signal, stop.signal])) };
  }

  #readResourcesAgain(): void {
    this.#isComplete = false;
    this.#crdChanges += 1;
    this.#requeues.delete(resourcesKey);
    this.#add(resourcesKey);
  }

  #find(uid: string): Found | undefined {
    for (const followed of this.#followed.values()) {
      const object = followed.informer.store.byUid(uid);
      if (object !== undefined) return { followed, object };
    }
    return undefined;
  }

  #dependentsOf(uid: string): Found[] {
    return [...this.#followed.values()].flatMap((followed) =>
      followed.dependentsOf(uid).map((object) => ({ followed, object })),
    );
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
    const isWaitedFor = states.includes("waiting") && this.#dependentsOf(uid).length > 0;
    const inForeground = isWaitedFor || finalizers.includes(foreground);
    const propagationPolicy = finalizers.includes(orphan) ? "Orphan" : inForeground ? "Foreground" : "Background";
    await resource.delete(metadata, { uid, resourceVersion, propagationPolicy });
  }

  async #stateOf(owner: OwnerReference, namespace?: string): Promise<OwnerState> {
    const known = this.#find(owner.uid)?.object.metadata;
    if (known === undefined) return this.#readStateOf(owner, namespace);
    const isWaiting = known.deletionTimestamp !== undefined && known.finalizers?.includes(foreground) === true;
    return isWaiting ? "waiting" : "present";
  }

  /**
   * An informer may be behind, so the API server confirms that an owner is gone. It lists, because a version that is not served any
   * more answers the request for an object as if the object did not exist.
   */
  async #readStateOf({ apiVersion, kind, name, uid }: OwnerReference, namespace?: string): Promise<OwnerState> {
    const resource = this.#followed.get(kindKey(apiVersion, kind))?.informer.resource;
    // An object without a namespace cannot be owned by one in a namespace.
    if (resource === undefined || (resource.ref.namespaced && namespace === undefined)) return "unknown";
    const list = await resource
      .list({ ...(resource.ref.namespaced && { namespace }), fieldSelector: `metadata.name=${name}` })
      .catch(unlessCode("NotFound"));
    if (list === undefined) {
      this.#readResourcesAgain();
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
    if (!this.#knowsAllObjects()) return false;
    const dependents = this.#dependentsOf(uid);
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

  #knowsAllObjects(): boolean {
    return this.#isComplete && [...this.#followed.values()].every(({ informer }) => isListed(informer));
  }

  /** Deletes what is left in a namespace, and then lets it go. @returns whether it is empty */
  async #emptyNamespace({ metadata: { name, uid } }: Owned): Promise<boolean> {
    const namespaces = this.#client.resource(coreResources.namespaces);
    const metadata = (await namespaces.find({ name }))?.metadata;
    if (metadata?.uid !== uid || metadata.deletionTimestamp === undefined) return true;
    const hasAll = this.#isComplete;
    const left = await Promise.all(
      [...this.#followed.values()].map(async ({ informer: { resource } }) => {
        if (!resource.ref.namespaced) return 0;
        const { items } = await resource.list({ namespace: name });
        const remaining = items.filter((item) => item.metadata.deletionTimestamp === undefined);
        await Promise.all(remaining.map((item) => resource.delete(item.metadata, { uid: item.metadata.uid })));
        return items.length;
      }),
    );
    if (!hasAll || !this.#isComplete || left.some((count) => count > 0)) return false;
    const manifest = { apiVersion: "v1", kind: "Namespace", metadata, spec: { finalizers: [] } };
    await namespaces.update(manifest, { subresource: "finalize" });
    return true;
  }
}

function isListed({ store }: Informer<Owned>): boolean {
  return store.listsOf(undefined) > 0;
}

async function disown({ followed: { informer }, object: { metadata } }: Found, owner: string): Promise<void> {
  const { uid, resourceVersion, ownerReferences = [] } = metadata;
  const others = ownerReferences.filter((one) => one.uid !== owner);
  const patch = { metadata: { uid, resourceVersion, ownerReferences: others } };
  await informer.resource.mergePatch(metadata, patch).catch(unlessCode("NotFound"));
}

/** An object in another version, plural or scope is read at another path. */
function isSame(one: ResourceRef, other: ResourceRef): boolean {
  return pathOf(one) === pathOf(other) && one.namespaced === other.namespaced;
}
