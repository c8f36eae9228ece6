import { checkpointKind } from "../../api/kinds/checkpoint.ts";
import { namedSnapshotKind } from "../../api/kinds/named-snapshot.ts";
import { sandboxSetKind } from "../../api/kinds/sandbox-set.ts";
import { sandboxTemplateKind } from "../../api/kinds/sandbox-template.ts";
import { type Sandbox, sandboxKind } from "../../api/kinds/sandbox.ts";
import type { Clock } from "../../base/clock.ts";
import { RametError } from "../../base/errors.ts";
import { FairTurns } from "../../base/fair-turns.ts";
import type { Log } from "../../base/log.ts";
import { Followers } from "../../kube/followers.ts";
import { Informer, OwnWrites } from "../../kube/informer.ts";
import type { KubeClient } from "../../kube/kube-client.ts";
import type { Liveness } from "../../kube/liveness.ts";
import { type KubeObject, keyOf } from "../../kube/object.ts";
import type { ResourceClient } from "../../kube/resource-client.ts";
import type { ClaimParts } from "../../operations/claim/claim-sandbox.ts";
import { setModel } from "../../operations/claim/cold-sandbox.ts";
import { Stock } from "../../operations/claim/stock.ts";
import type { Followed, Following, Objects } from "../../operations/objects.ts";

/** The objects that the operations of the application service need; one per process. */
export type ServiceParts = ReturnType<typeof serviceParts>;

/** A capture that a request has begun. */
export interface BegunCapture {
  owner: string;
  /** The UIDs of the key's Checkpoints that the informer showed before it. */
  before: ReadonlySet<string>;
}

/** Claims are one write each, and the API server has to serve the controllers too. */
const claimsAtATime = 32;

/** @param aliases names that clients use for others: E2B's default template is `base` */
export function serviceParts(
  client: KubeClient,
  informers: ClientInformers,
  aliases: ReadonlyMap<string, string> = new Map(),
) {
  const { clock, random } = client;
  const known = knownObjects(informers);
  // The writes of this process to Sandboxes that the informer may not show yet.
  const writes = new OwnWrites(informers.sandboxes);
  const latest = (cached: Sandbox): Sandbox => writes.latest(cached);
  const sandboxes = new Followers(informers.sandboxes.store, clock, latest);
  const checkpoints = new Followers(informers.checkpoints.store, clock);
  const snapshots = new Followers(informers.snapshots.store, clock);
  const objects: Objects = {
    sandboxes: followed(informers.sandboxes.resource, sandboxes, writes),
    checkpoints: followed(informers.checkpoints.resource, checkpoints),
    snapshots: followed(informers.snapshots.resource, snapshots),
  };
  const stock = new Stock({
    store: informers.sandboxes.store,
    latest,
    revisionOf: (key) => known.set(key)?.status?.updateRevision,
  });
  const claims: ClaimParts = {
    sandboxes: informers.sandboxes.resource,
    stock,
    turns: new FairTurns(claimsAtATime),
    model: (at) => {
      const set = known.set(keyOf(at));
      return Promise.resolve(set && setModel(set, known, random));
    },
    remember: (base, write) => writes.write(base, write),
    clock,
  };
  // The owners of sandboxes that requests of this server are creating, by the UUID of the request.
  const creating = new Map<string, string>();
  // Captures that the informer may not show yet.
  const capturing = new Set<BegunCapture>();
  const close = (): void => {
    for (const part of [sandboxes, checkpoints, snapshots, stock]) part.close();
  };
  const followers = { sandboxes, checkpoints, snapshots };
  return {
    client,
    clock,
    aliases,
    informers,
    known,
    writes,
    ...followers,
    objects,
    claims,
    creating,
    capturing,
    close,
  };
}

export interface ServiceOptions {
  client: KubeClient;
  /** The only namespaces whose objects it knows. @default all */
  namespaces?: readonly string[] | undefined;
  aliases?: ReadonlyMap<string, string>;
  /** Followed as long as those of the service. */
  others?: readonly Pick<Informer<KubeObject>, "run" | "synced">[];
  liveness?: Liveness;
  log: Log;
  signal: AbortSignal;
}

/**
 * Runs `use` with the application service once its caches are filled, and follows the cluster until it returns.
 * @throws RametError that of the first list, such as `Forbidden`; `Canceled`
 */
export async function withService(
  { client, aliases, others = [], liveness, signal, ...watching }: ServiceOptions,
  use: (service: ServiceParts) => Promise<void>,
): Promise<void> {
  const informers = clientInformers(client, watching);
  const all = [...Object.values(informers), ...others];
  const following = new AbortController();
  const followed = all.map((informer) => informer.run(following.signal, liveness));
  const service = serviceParts(client, informers, aliases);
  try {
    await Promise.all(all.map((informer) => informer.synced(signal)));
    await use(service);
  } finally {
    service.close();
    following.abort();
    await Promise.all(followed);
  }
}

/** The objects of a kind, followed in the cache of an informer. @param writes remembers what this process writes */
function followed<T extends KubeObject>(
  resource: ResourceClient<T>,
  followers: Followers<T>,
  writes?: OwnWrites<T>,
): Followed<T> {
  return {
    create: (manifest, signal) => resource.create(manifest, signal && { signal }),
    patch: (object, change, signal) => {
      const { uid } = object.metadata;
      const guarded = { ...change, metadata: { ...change.metadata, uid } };
      const write = () => resource.mergePatch(object.metadata, guarded, signal && { signal });
      return writes === undefined ? write() : writes.write(object, write);
    },
    // What a client has given up is deleted even if it has disconnected.
    remove: ({ metadata }) => resource.delete(metadata, { uid: metadata.uid }),
    follow: (written, following) => follow({ followers, clock: resource.client.clock }, written, following),
  };
}

async function follow<T extends KubeObject, R>(
  { followers, clock }: { followers: Followers<T>; clock: Clock },
  written: T,
  { what, until, describe, ...wait }: Following<T, R>,
): Promise<R> {
  const started = clock.monotonicMilliseconds();
  let wasKnown = false;
  let last: T | undefined = written;
  const check = (cached: T | undefined): R | undefined => {
    wasKnown ||= cached !== undefined;
    last = wasKnown ? cached : written;
    return until(last, clock.monotonicMilliseconds() - started);
  };
  try {
    return await followers.until(written.metadata.uid, check, { what: `Waiting for ${what}`, ...wait });
  } catch (error) {
    const known = RametError.from(error);
    if (known.code !== "Timeout") throw known;
    throw new RametError("Timeout", `${known.message}: it is ${describe(last)}`, { cause: error });
  }
}

/** One informer for each kind that clients see. */
type ClientInformers = ReturnType<typeof clientInformers>;

export function clientInformers(client: KubeClient, options: { log: Log; namespaces?: readonly string[] | undefined }) {
  return {
    sandboxes: new Informer({ resource: client.of(sandboxKind), ...options }),
    checkpoints: new Informer({ resource: client.of(checkpointKind), ...options }),
    templates: new Informer({ resource: client.of(sandboxTemplateKind), ...options }),
    sets: new Informer({ resource: client.of(sandboxSetKind), ...options }),
    snapshots: new Informer({ resource: client.of(namedSnapshotKind), ...options }),
  };
}

/** The objects of a namespace as the informers know them. They may lag behind the API server. */
export type KnownObjects = ReturnType<typeof knownObjects>;

function knownObjects({ sandboxes, checkpoints, templates, sets, snapshots }: ClientInformers) {
  const byNamespace = ({ metadata }: { metadata: { namespace?: string | undefined } }) => [metadata.namespace ?? ""];
  const checkpointsById = checkpoints.store.index(({ metadata, status }) =>
    status?.checkpointId === undefined ? [] : [`${metadata.namespace}/${status.checkpointId}`],
  );
  const checkpointsBySource = checkpoints.store.index(({ metadata, spec }) => [
    `${metadata.namespace}/${spec.sandboxName ?? spec.podName ?? ""}`,
  ]);
  return {
    template: (key: string) => templates.store.get(key),
    set: (key: string) => sets.store.get(key),
    snapshot: (key: string) => snapshots.store.get(key),
    checkpointById: (namespace: string, id: string) => checkpointsById(`${namespace}/${id}`)[0],
    setsIn: sets.store.index(byNamespace),
    sandboxesIn: sandboxes.store.index(byNamespace),
    checkpointsIn: checkpoints.store.index(byNamespace),
    snapshotsIn: snapshots.store.index(byNamespace),
    /** Those that name this sandbox or its Pod. */
    checkpointsOf: ({ metadata }: Sandbox) => checkpointsBySource(`${metadata.namespace}/${metadata.name}`),
  };
}
