import * as z from "zod";
import { unlessCode } from "../base/errors.ts";
import { within } from "../base/within.ts";
import { Informer } from "../kube/informer.ts";
import type { KubeClient } from "../kube/kube-client.ts";
import { ObjectMeta } from "../kube/object.ts";
import { type ResourceRef, apiVersionOf, coreResources, pathOf } from "../kube/resource-ref.ts";

/** The metadata that the garbage collector keeps. */
export const Owned = z.object({
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
export type Owned = z.infer<typeof Owned>;

/** A resource of the API server that can have garbage. */
interface Followed {
  informer: Informer<Owned>;
  /** The objects that an owner with this UID has. */
  dependentsOf: (uid: string) => Owned[];
  stop: AbortController;
  running: Promise<void>;
}

export interface Found {
  followed: Followed;
  object: Owned;
}

/** How long one resource that cannot be listed delays the others. */
const longestListMilliseconds = 3_000;

/** `stale`: a CRD has changed meanwhile. `changed`: all are followed after the change of a CRD. */
type Outcome = "complete" | "changed" | "stale" | "incomplete";

/** Informers of the metadata of all objects, in whichever resources the API server serves. */
export class FollowedResources {
  readonly #client: KubeClient;
  readonly #signal: AbortSignal;
  /** Called with the UIDs of each object that changes, and of its owners. */
  readonly #onChange: (uid: string) => void;
  /** Called when the resources must be read again. */
  readonly #onStale: () => void;
  /** By group and kind. */
  readonly #followed = new Map<string, Followed>();
  /** Whether all resources that were found have been followed once. */
  #hasFollowed = false;
  /** Whether all resources that can have objects are followed. False again when a CRD changes. */
  #isComplete = false;
  /** Whether a CRD has changed since the resources were last read. */
  #isStale = false;

  constructor(
    client: KubeClient,
    { onChange, onStale }: { onChange: (uid: string) => void; onStale: () => void },
    signal: AbortSignal,
  ) {
    this.#client = client;
    this.#signal = signal;
    this.#onChange = onChange;
    this.#onStale = onStale;
  }

  get hasFollowed(): boolean {
    return this.#hasFollowed;
  }

  isComplete(): boolean {
    return this.#isComplete;
  }

  get all(): Followed[] {
    return [...this.#followed.values()];
  }

  /** Whether every object of the cluster is known. */
  get knowsAllObjects(): boolean {
    return this.#isComplete && this.all.every(({ informer }) => isListed(informer));
  }

  /** Resolves when the signal has aborted and all informers have ended. */
  async ended(): Promise<void> {
    await Promise.all(this.all.map(({ running }) => running));
  }

  find(uid: string): Found | undefined {
    for (const followed of this.#followed.values()) {
      const object = followed.informer.store.byUid(uid);
      if (object !== undefined) return { followed, object };
    }
    return undefined;
  }

  dependentsOf(uid: string): Found[] {
    return this.all.flatMap((followed) => followed.dependentsOf(uid).map((object) => ({ followed, object })));
  }

  resourceOf(apiVersion: string, kind: string): Followed["informer"]["resource"] | undefined {
    return this.#followed.get(kindKey(apiVersion, kind))?.informer.resource;
  }

  /** Ends the completeness until the resources have been read again. */
  readAgain(): void {
    this.#isComplete = false;
    this.#isStale = true;
    this.#onStale();
  }

  /** Follows each resource that has objects to delete, and no longer those that are gone or have changed. */
  async follow(): Promise<Outcome> {
    const wasStale = this.#isStale;
    this.#isStale = false;
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
    if (isNew) this.#reportAllOwned();
    if (this.#hasBecomeStale()) return "stale";
    this.#isComplete = isComplete;
    this.#isStale = wasStale && !isComplete;
    if (!isComplete) return "incomplete";
    return wasStale ? "changed" : "complete";
  }

  /** A function, because the compiler assumes that the field does not change. */
  #hasBecomeStale(): boolean {
    return this.#isStale;
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

  #reportAllOwned(): void {
    for (const { informer } of this.all) {
      for (const { metadata } of informer.store.list()) {
        if (metadata.ownerReferences?.length) this.#onChange(metadata.uid);
      }
    }
  }

  #follow(ref: ResourceRef): Followed {
    const stop = new AbortController();
    const informer = new Informer({ resource: this.#client.resource(ref, (value) => Owned.parse(value)) });
    const dependentsOf = informer.store.index(({ metadata }) => (metadata.ownerReferences ?? []).map(({ uid }) => uid));
    informer.onChange(({ object: { metadata } }) => {
      if (ref.kind === coreResources.crds.kind) this.readAgain();
      for (const uid of [metadata.uid, ...(metadata.ownerReferences ?? []).map((owner) => owner.uid)])
        this.#onChange(uid);
    });
    return { informer, dependentsOf, stop, running: informer.run(AbortSignal.any([this.#signal, stop.signal])) };
  }
}

function isListed({ store }: Informer<Owned>): boolean {
  return store.listsOf(undefined) > 0;
}

/** An object in another version, plural or scope is read at another path. */
function isSame(one: ResourceRef, other: ResourceRef): boolean {
  return pathOf(one) === pathOf(other) && one.namespaced === other.namespaced;
}

const Groups = z.object({
  groups: z.array(
    z.object({
      name: z.string(),
      preferredVersion: z.object({ groupVersion: z.string() }),
      versions: z.array(z.object({ groupVersion: z.string() })),
    }),
  ),
});
const Resources = z.object({
  resources: z.array(
    z.object({ name: z.string(), kind: z.string(), namespaced: z.boolean(), verbs: z.array(z.string()) }),
  ),
});

interface ServedResources {
  /** Each kind in one version. */
  served: ResourceRef[];
  /** Groups of which a version could not be read, such as one whose own API server is down. */
  unreadGroups: Set<string>;
}

/**
 * The resources whose objects can be deleted and followed. Each kind is in the preferred version of its group, or else in the first
 * that has it. Events are left out, because they have no owners.
 */
async function servedResources(client: KubeClient, signal: AbortSignal): Promise<ServedResources> {
  const { groups } = Groups.parse(await client.getPath("/apis", signal));
  const versions = groups.flatMap((group) => [
    group.preferredVersion.groupVersion,
    ...group.versions.map(({ groupVersion }) => groupVersion),
  ]);
  const served = new Map<string, ResourceRef>();
  const unreadGroups = new Set<string>();
  for (const path of ["/api/v1", ...new Set(versions.map((groupVersion) => `/apis/${groupVersion}`))]) {
    try {
      for (const ref of await resourcesAt(path, client, signal)) {
        const key = kindKey(apiVersionOf(ref), ref.kind);
        if (!served.has(key)) served.set(key, ref);
      }
    } catch (error) {
      if (signal.aborted) throw error;
      const [, group = ""] = path.split("/").slice(2).reverse();
      unreadGroups.add(group);
    }
  }
  return { served: [...served.values()], unreadGroups };
}

async function resourcesAt(path: string, client: KubeClient, signal: AbortSignal): Promise<ResourceRef[]> {
  const { resources } = Resources.parse(await client.getPath(path, signal));
  const [version = "", group = ""] = path.split("/").slice(2).reverse();
  return resources
    .filter(({ verbs }) => ["delete", "list", "watch"].every((verb) => verbs.includes(verb)))
    .filter(({ kind }) => kind !== coreResources.events.kind)
    .map(({ name, kind, namespaced }) => ({ group, version, plural: name, kind, namespaced }));
}

/** Names a kind in all its versions, in which its objects are the same. */
function kindKey(apiVersion: string, kind: string): string {
  const [, group = ""] = apiVersion.split("/").reverse();
  return `${kind}.${group}`;
}

const Crd = z.object({
  spec: z.object({ versions: z.array(z.object({ served: z.boolean() })) }),
  status: z.object({ conditions: z.array(z.object({ type: z.string(), status: z.string() })).nullish() }).optional(),
});

/** Whether the API server serves, or is about to serve, the kind of a CRD. One whose names are in use has no objects. */
export async function isServed(client: KubeClient, crd: string, signal: AbortSignal): Promise<boolean> {
  const path = `/apis/apiextensions.k8s.io/v1/customresourcedefinitions/${encodeURIComponent(crd)}`;
  const found = await client.getPath(path, signal).catch(unlessCode("NotFound"));
  if (found === undefined) return false;
  const { spec, status } = Crd.parse(found);
  const isEstablished = status?.conditions?.some((one) => one.type === "Established" && one.status === "True") === true;
  return isEstablished && spec.versions.some(({ served }) => served);
}
