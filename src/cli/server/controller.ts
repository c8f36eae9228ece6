import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { setFlagsFromString } from "node:v8";
import { parseRuntimeEgress } from "../../api/egress/effective-egress.ts";
import { parseLabelSelector } from "../../api/names/label-selector.ts";
import { parseQuota } from "../../api/quota/namespace-quota.ts";
import { parseStoreAddress } from "../../api/store/store-address.ts";
import { defined } from "../../base/defined.ts";
import { parseDuration } from "../../base/duration.ts";
import { RametError } from "../../base/errors.ts";
import { parseCheckpointInterval, parseDisruptionPolicy } from "../../api/pod/disruption.ts";
import { parseLayerSize } from "../../base/quantity.ts";
import { controllersMetrics } from "../../controllers/metrics.ts";
import { type RunBesideOptions, runBeside } from "../../controllers/run-beside.ts";
import { runControllers, type RunControllersOptions } from "../../controllers/run.ts";
import { egressFlagNames, parseServedNamespaces, requirePathOfCache } from "../../install/install-options.ts";
import { flagName, type Settings } from "../../install/setting-values.ts";
import type { SettingKey } from "../../install/settings.ts";
import type { CheckpointStore } from "../../store/checkpoint-store.ts";
import { storeAt } from "../../store/store-at.ts";
import type { Io } from "../io.ts";
import { runServerProcess } from "./server-process.ts";

type Flags = Settings<"controller">;

/** `ramet controller`: runs the controllers until it receives a signal. */
export async function runController(io: Io, settings: Flags): Promise<number> {
  // V8 then collects garbage sooner and compiles less: 108 MiB instead of 150 after some hundred reconciles.
  setFlagsFromString("--optimize-for-size");
  const store = settings.beside === undefined ? await storeOf(settings) : undefined;
  const { clusterRanges, installCrds, concurrency, leaderElect = false } = settings;
  const namespaces = namespacesOf(settings);
  const metrics = controllersMetrics();
  return runServerProcess(io, { name: "controller", settings, metrics }, ({ setReady, ...context }) => {
    const shared: RunBesideOptions = {
      ...context,
      namespaces,
      network: { clusterRanges },
      installCrds,
      concurrency,
      // The host name alone is not unique: a container that restarts in its Pod is another candidate.
      ...(leaderElect && { leaderElection: { identity: `${hostname()}_${randomUUID()}` } }),
      onReady: () => {
        setReady(true);
        context.log.info({}, "the controllers are running");
      },
    };
    if (store === undefined) return runBeside(shared);
    return runControllers({
      ...shared,
      store: { checkpoints: store, encryptionSecret: settings.encryption.secret },
      cells: cellsOf(settings),
      network: networkOf(settings),
      registries: registriesOf(settings),
      importVolumes: settings.importVolumes,
      upkeep: {
        stepCacheBytes: settings.stepCacheBytes,
        engines: { pauseMilliseconds: duration(settings.cells.engineCheckInterval, "cells.engineCheckInterval") },
      },
      onYield: (why) => {
        setReady(false, why);
      },
    });
  });
}

function namespacesOf({ servedNamespaces, namespaceSelector: selector, namespaceQuota }: Flags) {
  if (selector !== undefined) parseLabelSelector(selector, flagName("namespaceSelector", "controller"));
  return {
    served: servedNamespaces && parseServedNamespaces(servedNamespaces, "controller"),
    selector,
    quota: parseQuota(namespaceQuota, {
      storeBytes: flagName("namespaceQuota.storeBytes", "controller"),
      checkpoints: flagName("namespaceQuota.checkpoints", "controller"),
      builds: flagName("namespaceQuota.builds", "controller"),
      fetches: flagName("namespaceQuota.fetches", "controller"),
    }),
  };
}

function cellsOf({ cellImage = "", cells }: Flags): RunControllersOptions["cells"] {
  requirePathOfCache(cells, "controller");
  const {
    writableLayerSize: size,
    nodeCachePath: path,
    nodeCacheSize,
    onDisruption,
    concurrentMoves,
    checkpointEvery,
  } = cells;
  const longest = duration(cells.longestGracePeriod, "cells.longestGracePeriod");
  const { engine, earlierImages = [], concurrentUpgrades, seccompProfile, userNamespaces = "auto" } = cells;
  const byEngine = earlierImages.map((text): [string, string] => {
    const at = text.indexOf("=");
    return [text.slice(0, at), text.slice(at + 1)];
  });
  return {
    cellImage,
    cellEngine: engine,
    earlierCellImages: new Map(byEngine),
    concurrentUpgrades,
    seccompProfile,
    userNamespaces,
    layerBytes:
      size === undefined ? undefined : parseLayerSize(size, flagName("cells.writableLayerSize", "controller")),
    nodeCache: path === undefined ? undefined : { path, sizeBytes: sizeOfNodeCache(nodeCacheSize) },
    concurrentMoves,
    longestGraceSeconds: longest === undefined ? undefined : longest / 1000,
    onDisruption:
      onDisruption === undefined
        ? undefined
        : parseDisruptionPolicy(onDisruption, flagName("cells.onDisruption", "controller")),
    checkpointEvery:
      checkpointEvery === undefined
        ? undefined
        : parseCheckpointInterval(checkpointEvery, flagName("cells.checkpointEvery", "controller")),
  };
}

function sizeOfNodeCache(size = "20Gi"): number {
  return parseLayerSize(size, flagName("cells.nodeCacheSize", "controller"));
}

function networkOf({
  dnsUpstreams,
  clusterDomain,
  clusterRanges,
  egress,
}: Flags): NonNullable<RunControllersOptions["network"]> {
  return {
    dns: {
      ...(dnsUpstreams && { upstreams: [...dnsUpstreams] }),
      ...defined({ clusterDomain }),
    },
    egress: parseRuntimeEgress(egress, egressFlagNames("controller")),
    clusterRanges,
  };
}

function registriesOf({ clusterRanges, registries }: Flags): NonNullable<RunControllersOptions["registries"]> {
  const { private: privateRegistries, insecure: insecureRegistries, lookup = true, pullTimeout } = registries;
  return {
    access: lookup ? { clusterRanges, privateRegistries, insecureRegistries } : undefined,
    pullTimeoutMilliseconds: duration(pullTimeout, "registries.pullTimeout"),
  };
}

function duration(text: string | undefined, key: SettingKey): number | undefined {
  return text === undefined ? undefined : parseDuration(text, flagName(key, "controller"));
}

/** @throws RametError `InvalidArgument` without a store or a cell image */
function storeOf({ store, cellImage }: Flags): Promise<CheckpointStore> {
  const { directory, address, verifyRestores = true } = store;
  if (cellImage === undefined) {
    throw new RametError("InvalidArgument", "Cannot start the controllers: they need a cell image", {
      hint: "Add --cell-image, or --beside where other controllers run the sandboxes",
    });
  }
  if ((directory === undefined) === (address === undefined)) {
    throw new RametError("InvalidArgument", "Cannot start the controllers: they need exactly one store", {
      hint: "Add either --store-directory or --store",
    });
  }
  return storeAt(address === undefined ? { directory: directory ?? "" } : parseStoreAddress(address), {
    verifyRestores,
  });
}
