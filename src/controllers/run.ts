import type { RuntimeEgress } from "../api/egress/effective-egress.ts";
import type { CellUserNamespaces } from "../api/names/system-names.ts";
import type { CellPodOptions } from "../api/pod/cell-pod.ts";
import type { NamespaceQuota } from "../api/quota/namespace-quota.ts";
import type { Backend } from "../backends/backend.ts";
import {
  clusterEnvironmentKey,
  credentialKeys,
  environmentSeal,
  publishCredentialKey,
} from "../backends/environment-seal.ts";
import { type OpenBackendsOptions, type OpenedBackends, openBackends } from "../backends/open-backends.ts";
import { defined } from "../base/defined.ts";
import { silentLog } from "../base/log.ts";
import { type Informer, OwnWrites } from "../kube/informer.ts";
import type { KubeObject } from "../kube/object.ts";
import { termsOfVolumes } from "../kube/volumes/volumes.ts";
import { type RegistryAccess, RegistryTransport } from "../registry/registry-transport.ts";
import { checkpointController } from "./checkpoint/controller.ts";
import { createCache } from "./cluster/cache.ts";
import type { Controller, ControllerParts } from "./cluster/controller-parts.ts";
import { DataFindings } from "./cluster/data-findings.ts";
import { StoreReports } from "./cluster/store-reports.ts";
import { Departures } from "./cluster/departures.ts";
import { requestsOfOthers } from "./cluster/move-facts.ts";
import { Exclusion, NamespaceQuotas, createInformers } from "./cluster/resources.ts";
import { type EngineUpkeepOptions, runEngineUpkeep } from "./collect/engine-upkeep.ts";
import { runCollector } from "./collect/run-collector.ts";
import { Engines, type EnginesOptions } from "./images/engines.ts";
import { installCrds } from "./install-crds.ts";
import { type KeyRotationOptions, runKeyRotation } from "./keys/rotate-keys.ts";
import { namedSnapshotController } from "./named-snapshot/controller.ts";
import { NodeCpus } from "./nodes/node-cpus.ts";
import { UserNamespaceSupport, nodeInformer } from "./nodes/nodes.ts";
import { type ProcessOptions, eventRecorder, runTogether, whileFollowing, whileLeading } from "./run-together.ts";
import { sandboxClaimController } from "./sandbox-claim/controller.ts";
import { sandboxSetController } from "./sandbox-set/controller.ts";
import { sandboxController } from "./sandbox/controller.ts";
import { type SweepingOptions, runSweeper } from "./sweep.ts";
import { refuseOtherControllers, workUnlessOthersDo } from "./yield.ts";

export interface RunControllersOptions extends ProcessOptions {
  store: StoreOptions;
  cells: CellOptions;
  registries?: RegistryOptions;
  network?: NetworkOptions;
  namespaces?: NamespaceOptions;
  upkeep?: UpkeepOptions;
  /** Whether users with the verb `import` on checkpoints may import volumes by the handles of their snapshots. @default false */
  importVolumes?: boolean | undefined;
  /** Whether to install the CRDs of this version first. @default false */
  installCrds?: boolean | undefined;
  /** How often the controllers look for others of the same kinds. @default 15000 */
  otherControllers?: { pauseMilliseconds?: number };
  /** Called when the controllers stop for another one, with the reason. When it is gone, `onReady` is called again. */
  onYield?: (why: string) => void;
  signal: AbortSignal;
}

interface StoreOptions {
  /** Where the `cell` backend keeps checkpoints. */
  checkpoints: OpenBackendsOptions["store"];
  /** The Secret in `ramet-system` with the key for checkpoints. @default they are not encrypted */
  encryptionSecret?: string | undefined;
  /** Further backends. @default none */
  backends?: readonly Backend[] | undefined;
}

interface CellOptions extends EnginesOptions {
  /** The path of the cells' seccomp profile in the kubelets' directory of profiles. @default none */
  seccompProfile?: string | undefined;
  /** Whether cells get a user namespace; `auto`: if all schedulable nodes support it. @default "never" */
  userNamespaces?: CellUserNamespaces | undefined;
  /** The size of writable layers without another limit. @default that of the cell */
  layerBytes?: number | undefined;
  /** What the cells of a node share. @default nothing */
  nodeCache?: CellPodOptions["nodeCache"];
  /** What becomes of sandboxes whose Pods others end. @default what their contents allow */
  onDisruption?: CellPodOptions["onDisruption"];
  /** How many sandboxes of a leaving node move at the same time before their Pods are ended; 0: none. @default 4 */
  concurrentMoves?: number | undefined;
  /** @default that of `CellPodOptions` */
  longestGraceSeconds?: number | undefined;
  /** How often running sandboxes are captured. @default none */
  checkpointEvery?: CellPodOptions["checkpointEvery"];
}

interface RegistryOptions {
  /** How to reach the registries of images. Absent: images are not looked up, because the node has them. */
  access?: RegistryAccess | undefined;
  /** How long sets and builds wait for an image that cannot be pulled. @default 180000 */
  pullTimeoutMilliseconds?: number | undefined;
}

interface NetworkOptions {
  /** The upstreams of every sandbox's DNS relay. */
  dns?: CellPodOptions["dns"];
  /** The egress rules of every sandbox. Namespaces, templates and sandboxes can only narrow them. @default allow */
  egress?: RuntimeEgress["rules"];
  /** IPv4 ranges of the cluster's Pods, Services and nodes, which sandboxes cannot reach. @default none */
  clusterRanges?: readonly string[] | undefined;
}

interface NamespaceOptions {
  /** The only namespaces whose objects they read and reconcile. @default all */
  served?: readonly string[] | undefined;
  /** The labels of the namespaces whose objects the controllers see, as in `kubectl get -l`. @default all namespaces */
  selector?: string | undefined;
  /** The limits of namespaces whose annotation does not set them. @default {@link defaultQuota} */
  quota?: Partial<NamespaceQuota> | undefined;
}

/** Work that repeats. */
interface UpkeepOptions {
  /** The size budget for captured steps of recipes in each namespace. @default 20 GiB */
  stepCacheBytes?: number | undefined;
  /** The pauses of rotations of keys. @default those of `KeyRotationOptions` */
  keyRotation?: Pick<KeyRotationOptions, "pauseMilliseconds" | "settleMilliseconds"> | undefined;
  /** How often they sample the data of checkpoints. @default that of `SweepingOptions` */
  sweeping?: Pick<SweepingOptions, "samplePauseMilliseconds"> | undefined;
  /** How often they check the record of engines. @default that of `EngineUpkeepOptions` */
  engines?: Pick<EngineUpkeepOptions, "pauseMilliseconds"> | undefined;
}

/**
 * Runs all controllers until `signal` is aborted. Running reconciles complete. Cells complete their operations, and the next
 * leader joins them or finds their results.
 * @throws RametError `Unavailable` if the lease was lost: the process must exit; `StoreOfAnotherCluster`; `OtherController` if
 *   another controller owns the kinds when this is called
 */
export async function runControllers(options: RunControllersOptions): Promise<void> {
  const { client, signal, log = silentLog } = options;
  await refuseOtherControllers(client, log, signal);
  if (options.installCrds ?? false) await installCrds(client, signal);
  await whileLeading(options, (leading) => leadUnlessOthersDo(options, leading), signal);
}

async function leadUnlessOthersDo(options: RunControllersOptions, signal: AbortSignal): Promise<void> {
  const { client, metrics, onYield, otherControllers, log = silentLog } = options;
  const events = eventRecorder(options);
  const yielding = {
    client,
    log,
    events,
    registry: metrics?.registry,
    onYield,
    pauseMilliseconds: otherControllers?.pauseMilliseconds,
  };
  await workUnlessOthersDo(yielding, (working) => lead(options, working), signal);
  await events.flush();
}

async function lead(options: RunControllersOptions, signal: AbortSignal): Promise<void> {
  const { client, store, cells, namespaces: { served, selector } = {}, log = silentLog } = options;
  const environmentKey = await clusterEnvironmentKey(client, signal);
  const seal = environmentSeal(environmentKey);
  const credentials = credentialKeys(environmentKey);
  await publishCredentialKey(client, credentials);
  const opened = await openBackends({
    client,
    store: store.checkpoints,
    encryptionSecret: store.encryptionSecret,
    others: store.backends,
    namespaces: served,
    onCellNotProven: options.metrics?.cellNotProven,
    log,
    signal,
  });
  const engines = await Engines.open(client, cells, { log, signal });
  const exclusion = new Exclusion(client, { namespaceSelector: selector, namespaces: served }, log);
  const informers = createInformers(client, log, { namespaces: served, excludes: exclusion.excludes });
  const all = Object.values(informers) as Informer<KubeObject>[];
  exclusion.follow(all.map(({ store: seen }) => seen));
  const nodes = nodeInformer(client, log);
  const userNamespaces = cells.userNamespaces === "auto" ? new UserNamespaceSupport(nodes, log) : undefined;
  const others = [nodes, exclusion.namespaces].filter((one) => one !== undefined);
  const begin = async (): Promise<void> => {
    const nodeCpus = await NodeCpus.open(client, nodes, { log, signal });
    const storeReports = await StoreReports.open(client, log, signal);
    const departures = new Departures({
      nodes,
      informers,
      nodeCpus,
      termsOfVolumes: (pod) => termsOfVolumes(pod, client),
      requestsOfOthers: () => requestsOfOthers(client, served, log),
      clock: client.clock,
      atOnce: cells.concurrentMoves,
    });
    const parts = {
      informers,
      seal,
      credentialKeys: credentials,
      engines,
      nodes,
      nodeCpus,
      storeReports,
      userNamespaces,
    };
    await work(options, { ...opened, ...parts, departures }, signal).finally(() => {
      departures.close();
    });
  };
  try {
    await whileFollowing([...all, ...others], options, begin, signal);
  } finally {
    opened.close();
  }
}

interface Opened extends Pick<
  ControllerParts,
  "backends" | "runtime" | "informers" | "seal" | "credentialKeys" | "engines" | "nodes" | "nodeCpus" | "departures"
> {
  keys: OpenedBackends["keys"];
  storeReports: StoreReports;
  userNamespaces: UserNamespaceSupport | undefined;
}

async function work(
  options: RunControllersOptions,
  { keys, storeReports, userNamespaces, ...opened }: Opened,
  signal: AbortSignal,
): Promise<void> {
  const { client, metrics, namespaces: { served, quota } = {}, upkeep = {}, log = silentLog } = options;
  const { clock, random } = client;
  const events = eventRecorder(options);
  const { access, pullTimeoutMilliseconds } = options.registries ?? {};
  const registries = access && new RegistryTransport(access);
  const { informers, backends, runtime, engines } = opened;
  const cache = createCache(informers);
  const dataFindings = new DataFindings(cache);
  const controllers = controllerTable({
    ...opened,
    dataFindings,
    storeReports,
    client,
    cache,
    quotas: new NamespaceQuotas(informers.namespaces, quota),
    importsVolumes: options.importVolumes ?? false,
    podOptions: podOptions(options, userNamespaces),
    podKeys: () => keys.podKeys,
    concurrentMoves: options.cells.concurrentMoves,
    registries,
    pullTimeoutMilliseconds,
    sandboxWrites: new OwnWrites(informers.sandboxes),
    events,
    clock,
    random,
    log,
    ...defined({ metrics }),
  });
  const seesAll = served === undefined;
  const { store, resource, follows } = informers.checkpoints;
  const checkpoints = { store, resource, ...defined({ follows }), sandboxes: informers.sandboxes.resource };
  const sweeping = { backends, checkpoints, dataFindings, storeReports, clock, log };
  const { stepCacheBytes } = upkeep;
  const others = [
    () => runSweeper({ ...sweeping, ...defined({ metrics: metrics?.sweeps }), ...upkeep.sweeping }, signal),
    () => runCollector(defined({ informers, clock, log, stepCacheBytes, metrics: metrics?.collections }), signal),
    () => runEngineUpkeep({ engines, informers, seesAll, clock, log, ...upkeep.engines }, signal),
    () => runKeyRotation({ client, keys, runtime, informers, clock, log, ...upkeep.keyRotation }, signal),
  ];
  await runTogether(options, { controllers, others, events }, signal).finally(() => registries?.close());
}

function podOptions(
  { cells, network: { dns, egress, clusterRanges } = {} }: RunControllersOptions,
  userNamespaces: UserNamespaceSupport | undefined,
): ControllerParts["podOptions"] {
  return {
    seccompProfile: cells.seccompProfile,
    layerBytes: cells.layerBytes,
    nodeCache: cells.nodeCache,
    onDisruption: cells.onDisruption,
    checkpointEvery: cells.checkpointEvery,
    longestGraceSeconds: cells.longestGraceSeconds,
    userNamespaceFor: userNamespaces?.covers ?? (() => cells.userNamespaces === "always"),
    ...defined({ dns, egress }),
    ...(clusterRanges && { clusterRanges: [...clusterRanges] }),
  };
}

function controllerTable(parts: ControllerParts): Controller[] {
  return [
    sandboxController(parts),
    checkpointController(parts),
    sandboxSetController(parts),
    sandboxClaimController(parts),
    namedSnapshotController(parts),
  ];
}
