import { mkdirSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { availableParallelism, totalmem } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import * as z from "zod";
import { enginesConfigMap } from "../../api/engine/engine.ts";
import { systemNamespace } from "../../api/names/system-names.ts";
import { type Clock, delay, systemClock } from "../../base/clock.ts";
import { defined } from "../../base/defined.ts";
import { RametError } from "../../base/errors.ts";
import type { Log } from "../../base/log.ts";
import { imageUser } from "../../cell/setting/image-user.ts";
import { KubeClient } from "../../kube/kube-client.ts";
import { connectionFromKubeconfig } from "../../kube/kubeconfig.ts";
import { ObjectMeta } from "../../kube/object.ts";
import { coreResources } from "../../kube/resource-ref.ts";
import type { ClusterDirectory } from "../cluster-directory.ts";
import { readyFilePath, writeReadyFile } from "../cluster-status.ts";
import { type ClusterSetting, readSetting } from "../cluster-setting.ts";
import { dropEngines, keepEngine, keptEngine, linkSidePrograms } from "./engine-bundles.ts";
import { openPki } from "../control-plane/pki.ts";
import { openImageStore, getOrPullImage } from "../images/image-store.ts";
import { treesBy } from "../csi/storage/trees.ts";
import { dropLayers } from "./layer-directories.ts";
import { imagesDirectory } from "../images/build-once.ts";
import { runProgram } from "../tools/run-program.ts";
import { localDriverSocket } from "../volumes/snapshot-programs.ts";
import { hiddenDirectory } from "./pod-view.ts";
import type { ImageSource } from "./pod.ts";
import { localNodeName } from "./node-object.ts";
import { runLocalNode } from "./run-node.ts";

/** Runs the process `ramet local node`, the node of the cluster in this directory, until `signal` is aborted. */
export async function runNodeProcess(directory: ClusterDirectory, signal: AbortSignal): Promise<void> {
  const setting = await readSetting(directory.setting);
  const pki = await openPki(join(directory.path, "pki"), () => systemClock.now());
  const serving = await pki.issue({ commonName: localNodeName, use: "server", hosts: ["127.0.0.1"] });
  const client = new KubeClient(await connectionFromKubeconfig({ path: directory.kubeconfig }), {
    userAgent: "ramet-local-node",
  });
  const { runsc, "ramet-guest": guest, "ramet-link": link, "ramet-gofer": gofer } = setting.tools;
  const sidePrograms = gofer && (await linkSidePrograms(directory.sidePrograms, runsc, gofer));
  const compileCache = join(directory.path, "cell-compile-cache");
  const log = pino({ name: "local-node" }, pino.destination(2));
  const current = { tools: { runsc, guest, link, sidePrograms }, cell: setting.cell };
  const { cellEngine } = setting;
  await mkdir(directory.engines, { recursive: true, mode: 0o700 });
  await mkdir(directory.layers, { recursive: true, mode: 0o700 });
  if (cellEngine !== undefined) {
    await keepEngine(directory.engines, cellEngine, current);
    void dropUnneeded({ client, engines: directory.engines, current: cellEngine, log }, signal);
  }
  void dropLayersAtTimes({ client, layers: directory.layers, link, log }, signal);
  const programs = Object.values(setting.tools).filter((path) => path !== undefined);
  const needed = [...programs, ...setting.cell, imagesDirectory()];
  await warmCompileCache(compileCache, link, setting.cell).catch((error: unknown) => {
    // Each cell then compiles its program.
    log.warn({ error: RametError.from(error).message }, "caching the cell's compiled code failed");
  });
  try {
    await runLocalNode(
      {
        client,
        dir: directory.path,
        driverSocket: localDriverSocket,
        images: machineImages((line) => {
          log.info({}, line);
        }, systemClock),
        ...current,
        cellImage: setting.cellImage,
        earlierCells: (image) => keptEngine(directory.engines, image, current),
        environment: {
          PATH: process.env["PATH"] ?? "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
          HOME: process.env["HOME"] ?? "/",
          NODE_COMPILE_CACHE: compileCache,
          ...defaultLimits(setting),
        },
        view: {
          hidden: [hiddenDirectory(directory.path, needed)],
          shared: [compileCache, directory.engines, ...(sidePrograms === undefined ? [] : [sidePrograms])],
          store: directory.store,
          layers: directory.layers,
        },
        serving: { ca: pki.ca, ...serving },
        log,
        onReady: () => {
          writeReadyFile(readyFilePath(directory, "node"));
        },
      },
      signal,
    );
  } finally {
    await client.close();
  }
}

/** How often engines that no checkpoint needs are removed from the disk. */
const dropMilliseconds = 600_000;

/** Removes the programs of engines that the controllers no longer remember. */
async function dropUnneeded(
  { client, engines, current, log }: { client: KubeClient; engines: string; current: string; log: Log },
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    try {
      const known = await client
        .resource(coreResources.configMaps, (value) => EngineMap.parse(value))
        .find(engineMapAt);
      // Also the keys of entries that this release cannot read: a later one may have written them.
      const needed = new Set([current, ...Object.keys(known?.data ?? {})]);
      const dropped = known === undefined ? [] : await dropEngines(engines, needed, client.clock.now());
      if (dropped.length > 0) log.info({ engines: dropped }, "removed engines that no checkpoint needs");
    } catch (error) {
      log.warn({ error: RametError.from(error).message }, "removing unneeded engines failed");
    }
    await delay(client.clock, dropMilliseconds, signal).catch(() => undefined);
  }
}

/** Removes the unpacked layers of checkpoints that no longer exist. */
async function dropLayersAtTimes(
  { client, layers, link, log }: { client: KubeClient; layers: string; link: string; log: Log },
  signal: AbortSignal,
): Promise<void> {
  const tools = { trees: treesBy(link, signal), link, log };
  for (;;) {
    await delay(client.clock, dropMilliseconds, signal).catch(() => undefined);
    if (signal.aborted) return;
    try {
      const dropped = await dropLayers(layers, tools, client);
      if (dropped.length > 0) log.info({ layers: dropped }, "removed layers that no checkpoint needs");
    } catch (error) {
      log.warn({ error: RametError.from(error).message }, "removing unneeded layers failed");
    }
  }
}

const engineMapAt = { namespace: systemNamespace, name: enginesConfigMap };
const EngineMap = z.looseObject({ metadata: ObjectMeta, data: z.record(z.string(), z.string()).nullish() });

/** Half of the machine's memory and three quarters of its CPUs, so that one sandbox leaves room for the cluster and its user. */
function defaultLimits({ defaultLimits: limits }: ClusterSetting): Record<string, string> {
  const { memoryBytes = Math.floor(totalmem() / 2), cpuMillis = availableParallelism() * 750 } = limits;
  return {
    ...(memoryBytes > 0 && { RAMET_DEFAULT_MEMORY_BYTES: String(memoryBytes) }),
    ...(cpuMillis > 0 && { RAMET_DEFAULT_CPU_MILLIS: String(cpuMillis) }),
  };
}

const sweepMilliseconds = 2_000;

/**
 * The unpacked images of this machine, and images that it can pull. An existing image is not pulled again, even with `Always`,
 * so that a machine without a network can run it. `ramet local image add` replaces it by a newer one.
 */
function machineImages(progress: (line: string) => void, clock: Clock): ImageSource {
  const dir = imagesDirectory();
  const store = openImageStore({ dir, progress });
  let sweepIn: (() => void) | undefined;
  return {
    image: async (reference, pull) => {
      const image =
        (await store.find(reference)) ?? (pull === "Never" ? await store.get(reference) : await pulled(reference));
      const { rootPath, config, digest } = image;
      const { entrypoint, cmd, env } = config;
      const user = await imageUser({ name: reference, rootPath, user: config.user });
      // "/" means that the image names no working directory: commands start in their user's home.
      const workingDir = config.workingDir === "/" ? "" : config.workingDir;
      const hold = (directory: string): Promise<void> => store.hold(image, directory);
      return { rootPath, digest, hold, config: defined({ entrypoint, cmd, env, workingDir, user }) };
    },
    released: () => {
      // Pods are often deleted together: one sweep serves all of them.
      sweepIn ??= clock.schedule(sweepMilliseconds, () => {
        sweepIn = undefined;
        store.sweep().catch((error: unknown) => {
          progress(`Removing unused images failed: ${RametError.from(error).message}`);
        });
      });
    },
  };

  async function pulled(reference: string) {
    await mkdir(dir, { recursive: true });
    return getOrPullImage(store, reference, { scratch: dir, progress });
  }
}

/**
 * Fills Node's compile cache with the cell's program. Cells can only read it, so that none can change the code of another.
 * The program runs in namespaces, as a cell does, because Node's cache has a directory for each user id.
 */
async function warmCompileCache(directory: string, link: string, cell: readonly string[]): Promise<void> {
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  const environment = {
    NODE_COMPILE_CACHE: directory,
    RAMET_CELL_SETTING: "none",
  };
  await runProgram(link, ["pod", "--", ...cell], { environment, what: "Loading the cell's program" });
}
