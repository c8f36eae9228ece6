import { mkdir } from "node:fs/promises";
import { socketAccepts } from "../../base/http.ts";
import { type Child, startChild, waitUntilReady } from "../control-plane/child.ts";
import { localNodeName } from "../node/node-object.ts";
import { acquirePinned } from "../tools/acquire-tools.ts";
import {
  localDriverSocket,
  pinnedSnapshotProgram,
  snapshotProgramArguments,
  type SnapshotProgramName,
  snapshotProgramNames,
} from "../volumes/snapshot-programs.ts";
import { type Part, pauseAfterFailure } from "./part.ts";
import { type ClusterPartsOptions, part, startRamet } from "./parts.ts";
import { RametError } from "../../base/errors.ts";
import { Informer } from "../../kube/informer.ts";
import type { KubeClient } from "../../kube/kube-client.ts";
import { parseObject } from "../../kube/object.ts";
import { coreResources, type ResourceRef } from "../../kube/resource-ref.ts";
import { snapshotResources, groupResources } from "../../kube/volumes/snapshots.ts";
import { volumeResources } from "../../kube/volumes/volumes.ts";

/** The processes that volumes need. `runVolumeParts` starts them. */
export type VolumeParts = ReturnType<typeof volumeParts>;

export function volumeParts(options: ClusterPartsOptions) {
  return {
    driver: part(options, "csi-driver", 5_000, (signal) => startDriver(options, signal)),
    /** The programs of external-snapshotter. */
    snapshots: snapshotProgramNames.map((name) =>
      part(options, name, 1_000, (signal) => startSnapshotProgram(name, options, signal)),
    ),
  };
}

async function startDriver(options: ClusterPartsOptions, signal: AbortSignal): Promise<Child> {
  const { directory, clock } = options;
  const { volumes } = directory;
  await mkdir(volumes, { recursive: true, mode: 0o700 });
  const endpoint = ["--endpoint", `unix://${localDriverSocket}`];
  const args = ["csi-driver", ...endpoint, "--directory", volumes, "--node-id", localNodeName];
  const child = await startRamet(options, "csi-driver", args);
  await waitUntilReady(child, { what: "the CSI driver", clock, signal, ready: () => socketAccepts(localDriverSocket) });
  return child;
}

/** The first start on a machine builds the program, which takes minutes. */
async function startSnapshotProgram(
  name: SnapshotProgramName,
  { directory, clock }: ClusterPartsOptions,
  signal: AbortSignal,
): Promise<Child> {
  const { [name]: program } = await acquirePinned(pinnedSnapshotProgram, { names: [name], clock, signal });
  return startChild({
    program,
    args: snapshotProgramArguments(name, { kubeconfig: directory.kubeconfig, socket: localDriverSocket }),
    cwd: directory.path,
    logPath: directory.log(name),
    clock,
  });
}

/**
 * Starts the driver when the cluster has a claim or a volume, and the programs of external-snapshotter when it has a snapshot: few
 * clusters have any, and together they need as much memory as the controllers. Resolves when they run, or `signal` aborts.
 * @param options.hasSnapshots whether the cluster has the CRDs of VolumeSnapshots and VolumeGroupSnapshots
 * @param options.prepared resolves when the programs of snapshots are built
 */
export async function runVolumeParts(
  client: KubeClient,
  parts: VolumeParts,
  { hasSnapshots, prepared }: { hasSnapshots: boolean; prepared: Promise<void> },
  signal: AbortSignal,
): Promise<void> {
  const { groups, contents } = groupResources();
  const snapshots = [snapshotResources.snapshots, snapshotResources.contents, groups, contents];
  const ofSnapshots = hasSnapshots ? snapshots : [];
  const ofVolumes = [coreResources.persistentVolumeClaims, volumeResources.volumes, ...ofSnapshots];
  const start = async (needing: ResourceRef[], started: Part[], after?: Promise<void>): Promise<void> => {
    if (needing.length === 0) return;
    await Promise.all([untilAny(client, needing, signal), after]);
    await Promise.all(started.map((part) => startUntilRunning(part, client, signal)));
  };
  await Promise.all([start(ofVolumes, [parts.driver]), start(ofSnapshots, parts.snapshots, prepared)]);
}

/** Resolves when an object of one of these kinds exists, or `signal` aborts. */
async function untilAny(client: KubeClient, needing: readonly ResourceRef[], signal: AbortSignal): Promise<void> {
  const found = new AbortController();
  const either = AbortSignal.any([signal, found.signal]);
  await Promise.all(
    needing.map(async (ref) => {
      const informer = new Informer({ resource: client.resource(ref, parseObject) });
      informer.onChange(() => {
        found.abort();
      });
      await informer.run(either);
    }),
  );
}

/** `ramet local status` shows why the start failed. */
async function startUntilRunning(part: Part, { clock }: KubeClient, signal: AbortSignal): Promise<void> {
  for (let failures = 0; !signal.aborted; failures += 1) {
    try {
      await part.run();
      return;
    } catch (error) {
      process.stderr.write(`${RametError.from(error).describe()}\n`);
    }
    await pauseAfterFailure(clock, failures, signal);
  }
}
