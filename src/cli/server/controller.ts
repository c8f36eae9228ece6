import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { setFlagsFromString } from "node:v8";
import { pino } from "pino";
import type { besideProjects, CellUserNamespaces } from "../../api/names/system-names.ts";
import { parseRuntimeEgress } from "../../api/egress/effective-egress.ts";
import { parseLabelSelector } from "../../api/names/label-selector.ts";
import { parseQuota } from "../../api/quota/namespace-quota.ts";
import { parseDuration } from "../../base/duration.ts";
import { RametError } from "../../base/errors.ts";
import { parseStoreAddress } from "../../api/store/store-address.ts";
import { controllersMetrics } from "../../controllers/metrics.ts";
import { runBeside } from "../../controllers/run-beside.ts";
import { runControllers } from "../../controllers/run.ts";
import { parseServedNamespaces } from "../../install/install-options.ts";
import { KubeClient } from "../../kube/kube-client.ts";
import { Liveness } from "../../kube/liveness.ts";
import type { CheckpointStore } from "../../store/checkpoint-store.ts";
import { storeAt } from "../../store/store-at.ts";
import type { ClusterOptions } from "../cluster/cluster.ts";
import type { Io } from "../io.ts";
import {
  egressFlagNames,
  type EgressFlags,
  egressOf,
  quotaFlagNames,
  type QuotaFlags,
  quotaFlagsOf,
  type RegistryFlags,
} from "../server-options.ts";
import { serveHealth } from "./health.ts";
import { runServer, serverConnection } from "./server-process.ts";

export interface ControllerOptions
  extends Pick<ClusterOptions, "kubeconfig" | "context">, EgressFlags, QuotaFlags, RegistryFlags {
  storeDirectory?: string;
  /** An address, instead of a directory. */
  store?: string;
  /** @default true */
  verifyRestores: boolean;
  encryptionSecret?: string;
  /** Required without `beside`. */
  cellImage?: string;
  cellEngine?: string;
  earlierCellImage?: [engine: string, image: string][];
  concurrentUpgrades?: number;
  /** As given. */
  engineCheckInterval?: string;
  cellSeccompProfile?: string;
  cellUserNamespaces?: CellUserNamespaces;
  installCrds?: boolean;
  leaderElect?: boolean;
  /** Port of /livez, /healthz, /readyz and /metrics. @default none is opened */
  metricsPort?: number;
  metricsAddress: string;
  dnsUpstream?: string[];
  clusterRange?: string[];
  servedNamespace?: string[];
  clusterDomain?: string;
  namespaceSelector?: string;
  /** The project whose controllers own the kinds. @default none */
  beside?: (typeof besideProjects)[number];
  concurrency?: number;
  stepCacheBytes?: number;
  importVolumes?: boolean;
  logLevel: string;
}

/** `ramet controller`: runs the controllers until it receives a signal. Logs JSON lines to stderr. */
export async function runController(io: Io, options: ControllerOptions): Promise<number> {
  // V8 then collects garbage sooner and compiles less: 108 MiB instead of 150 after some hundred reconciles.
  setFlagsFromString("--optimize-for-size");
  const store = options.beside === undefined ? await storeOf(options) : undefined;
  const log = pino({ name: "controller", level: options.logLevel }, io.stderr);
  const metrics = controllersMetrics();
  const client = new KubeClient(await serverConnection(io, options), {
    userAgent: "ramet-controller",
    clock: io.clock,
    onRequest: metrics.onRequest,
  });
  const { metricsPort: port, metricsAddress: address, installCrds, concurrency, leaderElect, dnsUpstream } = options;
  const { clusterDomain, stepCacheBytes, clusterRange, encryptionSecret, importVolumes } = options;
  const { servedNamespace } = options;
  const servedNamespaces = servedNamespace && parseServedNamespaces(servedNamespace, "--served-namespace");
  const namespaceQuota = parseQuota(quotaFlagsOf(options), quotaFlagNames);
  const { namespaceSelector } = options;
  if (namespaceSelector !== undefined) parseLabelSelector(namespaceSelector, "--namespace-selector");
  const liveness = new Liveness(io.clock);
  const health =
    port === undefined ? undefined : await serveHealth({ port, address, registry: metrics.registry, liveness, log });
  const shared = {
    client,
    namespaceQuota,
    ...(namespaceSelector === undefined ? {} : { namespaceSelector }),
    ...(clusterRange === undefined ? {} : { clusterRanges: clusterRange }),
    ...(installCrds === undefined ? {} : { installCrds }),
    ...(concurrency === undefined ? {} : { concurrency }),
    // The host name alone is not unique: a container that restarts in its Pod is another candidate.
    ...(leaderElect === true ? { leaderElection: { identity: `${hostname()}_${randomUUID()}` } } : {}),
    metrics,
    liveness,
    log,
    onReady: () => {
      health?.setReady(true);
      log.info({}, "the controllers are running");
    },
  };
  try {
    return await runServer(io, log, (signal) => {
      if (store === undefined) return runBeside({ ...shared, signal });
      return runControllers({
        ...shared,
        store,
        ...cellOptions(options),
        dns: { ...(dnsUpstream && { upstreams: dnsUpstream }), ...(clusterDomain !== undefined && { clusterDomain }) },
        egress: parseRuntimeEgress(egressOf(options), egressFlagNames),
        ...(options.imageLookup !== false && {
          registries: {
            clusterRanges: clusterRange,
            privateRegistries: options.privateRegistry,
            insecureRegistries: options.insecureRegistry,
          },
        }),
        ...(options.pullTimeout !== undefined && {
          pullTimeoutMilliseconds: parseDuration(options.pullTimeout, "--pull-timeout"),
        }),
        ...(servedNamespaces && { servedNamespaces }),
        ...(encryptionSecret === undefined ? {} : { encryptionSecret }),
        ...(stepCacheBytes === undefined ? {} : { stepCacheBytes }),
        ...(importVolumes === undefined ? {} : { importVolumes }),
        onYield: (why) => {
          health?.setReady(false, why);
        },
        signal,
      });
    });
  } finally {
    await health?.close();
    await client.close();
  }
}

function cellOptions({
  cellImage = "",
  cellEngine,
  earlierCellImage,
  concurrentUpgrades,
  engineCheckInterval,
  cellSeccompProfile,
  cellUserNamespaces = "auto",
}: ControllerOptions) {
  return {
    cellImage,
    ...(cellEngine !== undefined && { cellEngine }),
    ...(earlierCellImage && { earlierCellImages: new Map(earlierCellImage) }),
    ...(concurrentUpgrades !== undefined && { concurrentUpgrades }),
    ...(engineCheckInterval !== undefined && {
      engineUpkeep: { pauseMilliseconds: parseDuration(engineCheckInterval, "--engine-check-interval") },
    }),
    ...(cellSeccompProfile !== undefined && { cellSeccompProfile }),
    cellUserNamespaces,
  };
}

/** @throws RametError `InvalidArgument` without a store or a cell image */
function storeOf({ storeDirectory, store, cellImage, verifyRestores }: ControllerOptions): Promise<CheckpointStore> {
  if (cellImage === undefined) {
    throw new RametError("InvalidArgument", "Cannot start the controllers: they need a cell image", {
      hint: "Add --cell-image, or --beside where other controllers run the sandboxes",
    });
  }
  if ((storeDirectory === undefined) === (store === undefined)) {
    throw new RametError("InvalidArgument", "Cannot start the controllers: they need exactly one store", {
      hint: "Add either --store-directory or --store",
    });
  }
  return storeAt(store === undefined ? { directory: storeDirectory ?? "" } : parseStoreAddress(store), {
    verifyRestores,
  });
}
