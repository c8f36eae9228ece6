import { hostname } from "node:os";
import * as z from "zod";
import type { CellPodOptions } from "../api/cell/cell-pod.ts";
import { controllersLease, gatewayKeySecret, privateKeyEntry, systemNamespace } from "../api/names/system-names.ts";
import { newCellKeyPem, publicKeyOf } from "../backends/cell-credentials.ts";
import { cellBackend, type CellBackendOptions } from "../backends/cell.ts";
import { clusterStore } from "../backends/cluster-store.ts";
import { type Log, silentLog } from "../base/log.ts";
import { runController } from "../kube/controller.ts";
import { EventRecorder } from "../kube/events.ts";
import type { Informer } from "../kube/informer.ts";
import type { KubeClient } from "../kube/kube-client.ts";
import type { Liveness } from "../kube/liveness.ts";
import { runWhileLeading } from "../kube/lease.ts";
import { type KubeObject, ObjectMeta } from "../kube/object.ts";
import { OwnWrites } from "../kube/own-writes.ts";
import { checkpointController } from "./checkpoint/controller.ts";
import { keepCollected } from "./collect/keep-collected.ts";
import { createCache } from "./common/cache.ts";
import type { Controller, ControllerParts } from "./common/controller-parts.ts";
import { clusterCredentials } from "./common/identity.ts";
import { createSystemNamespace, keptSecret } from "./common/kept-secret.ts";
import type { ControllersMetrics } from "./metrics.ts";
import { createInformers, type Informers } from "./common/resources.ts";
import { installCrds } from "./install-crds.ts";
import { namedSnapshotController } from "./named-snapshot/controller.ts";
import { sandboxClaimController } from "./sandbox-claim/controller.ts";
import { sandboxSetController } from "./sandbox-set/controller.ts";
import { sandboxController } from "./sandbox/controller.ts";
import { keepSwept } from "./sweep.ts";

export interface RunControllersOptions {
  client: KubeClient;
  /** Where checkpoints are kept. */
  store: CellBackendOptions["store"];
  /** The image with the cell, gVisor, guest and link. */
  cellImage: string;
  /** What every sandbox's DNS relay asks and its outbound proxy allows. */
  dns?: CellPodOptions["dns"];
  egress?: CellPodOptions["egress"];
  /** IPv4 ranges of the cluster's Pods, Services and nodes, which sandboxes do not reach. @default none */
  clusterRanges?: string[];
  /** Unlike every other candidate's; absent: there is no other, and no lease is taken. */
  leaderElection?: { identity: string };
  /** Bring the CRDs to this version first. @default false */
  installCrds?: boolean;
  /** How many reconciles of one controller may run at once; none waits for a cell's work. @default 16 */
  concurrency?: number;
  /** What captured steps of recipes may take in each namespace. @default 20 GiB */
  stepCacheBytes?: number;
  metrics?: ControllersMetrics;
  /** Learns when an informer or a controller has stopped. */
  liveness?: Liveness;
  log?: Log;
  /** Called when all that exists is known and reconciling has begun. */
  onReady?: () => void;
  signal: AbortSignal;
}

/**
 * Runs the controllers of `table.ts` until `signal` is aborted; reconciles that run then may finish. What cells
 * do at that time they bring to an end, and whoever runs next joins or finds it.
 * @throws RametError `Unavailable` if the lease was lost: the process has to end; `StoreOfAnotherCluster`
 */
export async function runControllers(options: RunControllersOptions): Promise<void> {
  const { client, leaderElection, signal, log = silentLog } = options;
  if (options.installCrds ?? false) await installCrds(client, signal);
  if (leaderElection === undefined) {
    await lead(options, signal);
    return;
  }
  await createSystemNamespace(client, signal);
  const { identity } = leaderElection;
  const lease = { client, namespace: systemNamespace, name: controllersLease, identity, log };
  await runWhileLeading(lease, (leading) => lead(options, leading), signal);
}

async function lead(options: RunControllersOptions, signal: AbortSignal): Promise<void> {
  const { client, log = silentLog } = options;
  const [credentials, gatewayKey] = await Promise.all([
    clusterCredentials(client, signal),
    clusterGatewayKey(client, signal),
  ]);
  const store = await clusterStore({ client, store: options.store, log, signal });
  const backend = cellBackend({ credentials, store, clock: client.clock });
  const informers = createInformers(client, log);
  const all = Object.values(informers) as Informer<KubeObject>[];
  const following = new AbortController();
  const followers = all.map((informer) => informer.run(following.signal, options.liveness));
  try {
    // Every controller looks into all of them, whatever it hears of: who is not listed yet is not gone.
    await Promise.all(all.map((informer) => informer.synced(signal)));
    await work(options, { backend, credentials, gatewayKey, informers }, signal);
  } catch (error) {
    if (!signal.aborted) throw error;
  } finally {
    following.abort();
    await Promise.all(followers);
    backend.close();
  }
}

interface Found extends Pick<ControllerParts, "backend" | "credentials" | "informers"> {
  gatewayKey: string;
}

async function work(
  options: RunControllersOptions,
  { gatewayKey, ...found }: Found,
  signal: AbortSignal,
): Promise<void> {
  const { client, cellImage, dns, egress, clusterRanges, metrics, log = silentLog, onReady } = options;
  const { clock, random } = client;
  const { informers, backend } = found;
  const events = new EventRecorder({
    client,
    reportingController: "ramet.dev/controllers",
    reportingInstance: options.leaderElection?.identity ?? hostname(),
    log,
  });
  const controllers = controllerTable({
    ...found,
    client,
    cache: createCache(informers),
    podOptions: {
      cellImage,
      gatewayKey,
      ...(dns && { dns }),
      ...(egress && { egress }),
      ...(clusterRanges && { clusterRanges }),
    },
    sandboxWrites: new OwnWrites(informers.sandboxes),
    events,
    clock,
    random,
    log,
    ...(metrics && { metrics }),
  });
  const { concurrency = 16, liveness } = options;
  const common = { clock, random, concurrency, liveness, backoff, log };
  const ready = countdown(controllers.length, onReady);
  const sweeping = {
    backend,
    checkpoints: informers.checkpoints,
    clock,
    log,
    ...(metrics && { metrics: metrics.sweeps }),
  };
  const run = ({ name, watches, reconcile, wishes }: Controller) =>
    runController(
      { ...common, name, watches, reconcile, ...(metrics && { metrics: metrics.forController(name) }) },
      signal,
      (add) => {
        wishes?.lead(add);
        ready();
      },
    );
  try {
    await Promise.all([
      keepSwept(sweeping, signal),
      keepCollected(collecting(options, informers), signal),
      ...controllers.map(run),
    ]);
  } finally {
    for (const { close } of controllers) close?.();
    await events.flush();
  }
}

function collecting({ client, stepCacheBytes, metrics, log = silentLog }: RunControllersOptions, informers: Informers) {
  return {
    informers,
    clock: client.clock,
    log,
    ...(stepCacheBytes !== undefined && { stepCacheBytes }),
    ...(metrics && { metrics: metrics.collections }),
  };
}

const backoff = { baseMilliseconds: 50, maxMilliseconds: 60_000 };

function countdown(count: number, then: (() => void) | undefined): () => void {
  let left = count;
  return () => {
    if (--left === 0) then?.();
  };
}

/** Every controller that `ramet controller` runs, each made from the same parts. */
function controllerTable(parts: ControllerParts): Controller[] {
  return [
    sandboxController(parts),
    checkpointController(parts),
    sandboxSetController(parts),
    sandboxClaimController(parts),
    namedSnapshotController(parts),
  ];
}

/**
 * The public half of the key of this cluster's gateways, base64url of its 32 bytes. It is one of its own, so that a gateway, to which
 * everybody may speak, can open ports and nothing else.
 */
async function clusterGatewayKey(client: KubeClient, signal?: AbortSignal): Promise<string> {
  const make = () => ({ [privateKeyEntry]: Buffer.from(newCellKeyPem()).toString("base64") });
  const { data } = await keptSecret(client, { name: gatewayKeySecret, schema: KeySecret, make }, signal);
  return publicKeyOf(Buffer.from(data[privateKeyEntry], "base64").toString("utf8"));
}

const KeySecret = z.looseObject({
  metadata: ObjectMeta,
  data: z.looseObject({ [privateKeyEntry]: z.string().min(1) }),
});
