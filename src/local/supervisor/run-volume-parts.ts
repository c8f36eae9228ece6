import { backoffMilliseconds } from "../../base/backoff.ts";
import { delay } from "../../base/clock.ts";
import { RametError } from "../../base/errors.ts";
import { Informer } from "../../kube/informer.ts";
import type { KubeClient } from "../../kube/kube-client.ts";
import { parseObject } from "../../kube/object.ts";
import { coreResources, type ResourceRef } from "../../kube/resource-ref.ts";
import { groupResources } from "../../kube/volumes/group-snapshots.ts";
import { snapshotResources } from "../../kube/volumes/snapshots.ts";
import { volumeResources } from "../../kube/volumes/volumes.ts";
import type { Part } from "./part.ts";
import type { VolumeParts } from "./volume-parts.ts";

export interface VolumePartsOptions {
  client: KubeClient;
  parts: VolumeParts;
  /** Whether the cluster has the CRDs of VolumeSnapshots and VolumeGroupSnapshots. */
  hasSnapshots: boolean;
}

/**
 * Starts the driver when the cluster has a claim or a volume, and the programs of external-snapshotter when it has a snapshot: few
 * clusters have any, and together they need as much memory as the controllers. Resolves when they run, or `signal` aborts.
 */
export async function runVolumeParts(
  { client, parts, hasSnapshots }: VolumePartsOptions,
  signal: AbortSignal,
): Promise<void> {
  const { groups, contents } = groupResources();
  const snapshots = [snapshotResources.snapshots, snapshotResources.contents, groups, contents];
  const ofSnapshots = hasSnapshots ? snapshots : [];
  const ofVolumes = [coreResources.persistentVolumeClaims, volumeResources.volumes, ...ofSnapshots];
  const start = async (needing: ResourceRef[], started: Part[]): Promise<void> => {
    if (needing.length === 0) return;
    await untilAny(client, needing, signal);
    await Promise.all(started.map((part) => startUntilRunning(part, client, signal)));
  };
  await Promise.all([start(ofVolumes, [parts.driver]), start(ofSnapshots, parts.snapshots)]);
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

const backoff = { baseMilliseconds: 5_000, maxMilliseconds: 300_000, jitter: 0.2 };

/** The user may install Go meanwhile, or connect the machine. `ramet local status` shows why the start failed. */
async function startUntilRunning(part: Part, { clock }: KubeClient, signal: AbortSignal): Promise<void> {
  for (let failures = 0; !signal.aborted; failures += 1) {
    try {
      await part.run();
      return;
    } catch (error) {
      process.stderr.write(`${RametError.from(error).describe()}\n`);
    }
    await delay(clock, backoffMilliseconds(backoff, failures, Math.random), signal).catch(() => undefined);
  }
}
