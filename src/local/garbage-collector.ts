import * as z from "zod";
import { RametError } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import type { OwnerReference } from "../api/schema/metadata.ts";
import { type ReconcileResult, runController } from "../kube/controller.ts";
import { Informer } from "../kube/informer.ts";
import type { KubeClient } from "../kube/kube-client.ts";
import { ObjectMeta } from "../kube/object.ts";
import { apiVersionOf, coreResources, type ResourceRef } from "../kube/resource-ref.ts";

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

class GarbageCollector {
  readonly #client: KubeClient;
  readonly #signal: AbortSignal;
  /** By group and kind. */
  readonly #followed = new Map<string, Followed>();
  #add: (key: string) => void = () => undefined;

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
    const found = this.#find(key);
    if (found === undefined) {
      for (const { object } of this.#dependentsOf(key)) this.#add(object.metadata.uid);
    } else if (found.object.metadata.deletionTimestamp === undefined) await this.#collect(found);
    else return this.#finishDeletion(found);
  }

  /** Follows each resource that has objects to delete, and no longer those that are gone. A new CRD is served a moment later. */
  async #followResources(): Promise<ReconcileResult> {
    const served = await servedResources(this.#client, this.#signal);
    const names = new Map(served.map((ref) => [kindKey(apiVersionOf(ref), ref.kind), ref]));
    for (const [name, { stop }] of this.#followed) {
      if (names.has(name)) continue;
      stop.abort();
      this.#followed.delete(name);
    }
    for (const [name, ref] of names) {
      if (this.#followed.has(name)) continue;
      const followed = this.#follow(ref);
      this.#followed.set(name, followed);
      // One after another: the cluster has just started, and its user waits for other things.
      await followed.informer.synced(this.#signal);
    }
    const crds = this.#followed.get(kindKey("apiextensions.k8s.io/v1", coreResources.crds.kind))?.informer.store.list();
    const plurals = new Set(served.map(({ plural, group }) => `${plural}.${group}`));
    const isComplete = crds?.every(({ metadata }) => plurals.has(metadata.name)) === true;
    return isComplete ? undefined : { requeueAfterMilliseconds: 1_000 };
  }

  #follow(ref: ResourceRef): Followed {
    const stop = new AbortController();
    const informer = new Informer({ resource: this.#client.resource(ref, (value) => Owned.parse(value)) });
    const dependentsOf = informer.store.index(({ metadata }) => (metadata.ownerReferences ?? []).map(({ uid }) => uid));
    informer.onChange(({ object: { metadata } }) => {
      if (ref.kind === coreResources.crds.kind) this.#add(resourcesKey);
      for (const uid of [metadata.uid, ...(metadata.ownerReferences ?? []).map((owner) => owner.uid)]) this.#add(uid);
    });
    return { informer, dependentsOf, stop, running: informer.run(AbortSignal.any([this.#signal, stop.signal])) };
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

  /** An informer may be behind, so the API server confirms that an owner is gone. */
  async #readStateOf({ apiVersion, kind, name, uid }: OwnerReference, namespace?: string): Promise<OwnerState> {
    const resource = this.#followed.get(kindKey(apiVersion, kind))?.informer.resource;
    // An object without a namespace cannot be owned by one in a namespace.
    if (resource === undefined || (resource.ref.namespaced && namespace === undefined)) return "unknown";
    const found = await resource.find({ namespace, name });
    return found?.metadata.uid === uid ? "present" : "gone";
  }

  async #finishDeletion(found: Found): Promise<ReconcileResult> {
    const { followed, object } = found;
    const { uid, finalizers = [] } = object.metadata;
    const { resource } = followed.informer;
    if (resource.ref.kind === coreResources.namespaces.kind) return this.#emptyNamespace(object);
    if (!finalizers.includes(foreground) && !finalizers.includes(orphan)) return;
    await Promise.all([...this.#followed.values()].map(({ informer }) => informer.synced(this.#signal)));
    const dependents = this.#dependentsOf(uid);
    if (finalizers.includes(orphan)) {
      await Promise.all(dependents.map((dependent) => disown(dependent, uid)));
      await resource.removeFinalizer(object, orphan);
      return;
    }
    const blocking = dependents.filter(({ object: { metadata } }) =>
      metadata.ownerReferences?.some((owner) => owner.uid === uid && owner.blockOwnerDeletion === true),
    );
    // Each that is deleted enqueues its owner.
    for (const one of blocking) this.#add(one.object.metadata.uid);
    if (blocking.length === 0) await resource.removeFinalizer(object, foreground);
  }

  /** Deletes what is left in a namespace, and then lets it go. */
  async #emptyNamespace({ metadata: { name, resourceVersion, finalizers } }: Owned): Promise<ReconcileResult> {
    const left = await Promise.all(
      [...this.#followed.values()].map(async ({ informer: { resource } }) => {
        if (!resource.ref.namespaced) return 0;
        const { items } = await resource.list({ namespace: name });
        const remaining = items.filter(({ metadata }) => metadata.deletionTimestamp === undefined);
        await Promise.all(remaining.map(({ metadata }) => resource.delete(metadata, { uid: metadata.uid })));
        return items.length;
      }),
    );
    if (left.some((count) => count > 0)) return { requeueAfterMilliseconds: 500 };
    const metadata = { name, resourceVersion, finalizers };
    const manifest = { apiVersion: "v1", kind: "Namespace", metadata, spec: { finalizers: [] } };
    await this.#client.resource(coreResources.namespaces).update(manifest, { subresource: "finalize" });
  }
}

async function disown({ followed: { informer }, object: { metadata } }: Found, owner: string): Promise<void> {
  const { uid, resourceVersion, ownerReferences = [] } = metadata;
  const others = ownerReferences.filter((one) => one.uid !== owner);
  try {
    await informer.resource.mergePatch(metadata, { metadata: { uid, resourceVersion, ownerReferences: others } });
  } catch (error) {
    if (RametError.from(error).code !== "NotFound") throw error;
  }
}

/** The version of a reference does not matter: an object is the same in all of them. */
function kindKey(apiVersion: string, kind: string): string {
  const [, group = ""] = apiVersion.split("/").reverse();
  return `${kind}.${group}`;
}

const Groups = z.object({
  groups: z.array(z.object({ name: z.string(), preferredVersion: z.object({ groupVersion: z.string() }) })),
});
const Resources = z.object({
  resources: z.array(
    z.object({ name: z.string(), kind: z.string(), namespaced: z.boolean(), verbs: z.array(z.string()) }),
  ),
});

/** The resources whose objects can be deleted and followed, in the preferred version of each group. Events have no owners. */
async function servedResources(client: KubeClient, signal: AbortSignal): Promise<ResourceRef[]> {
  const { groups } = Groups.parse(await client.getPath("/apis", signal));
  const paths = ["/api/v1", ...groups.map(({ preferredVersion }) => `/apis/${preferredVersion.groupVersion}`)];
  const served: ResourceRef[] = [];
  for (const path of paths) {
    const { resources } = Resources.parse(await client.getPath(path, signal));
    const [version = "", group = ""] = path.split("/").slice(2).reverse();
    for (const { name, kind, namespaced, verbs } of resources) {
      const isFollowed = ["delete", "list", "watch"].every((verb) => verbs.includes(verb));
      if (isFollowed && kind !== coreResources.events.kind)
        served.push({ group, version, plural: name, kind, namespaced });
    }
  }
  return served;
}
