import { systemClock } from "../../src/base/clock.ts";
import { silentLog } from "../../src/base/log.ts";
import { csiClient } from "../../src/local/csi/client.ts";
import { loadCsiServices } from "../../src/local/csi/unary.ts";
import { Informer } from "../../src/kube/informer.ts";
import type { KubeClient } from "../../src/kube/kube-client.ts";
import { claimsIn } from "../../src/kube/volumes/volumes.ts";
import { type Child, startChild } from "../../src/local/control-plane/child.ts";
import { csiProtoPath } from "../../src/local/volumes/local-volumes.ts";
import {
  snapshotProgramArguments,
  type SnapshotProgramName,
  snapshotProgramNames,
} from "../../src/local/volumes/snapshot-programs.ts";
import { VolumeController } from "../../src/local/volumes/volume-controller.ts";

/** Runs the provisioner of local clusters in this process: a stand-in for external-provisioner and external-resizer. */
export function runVolumeController(client: KubeClient, socket: string): { stop(): Promise<void> } {
  const stopping = new AbortController();
  const services = loadCsiServices(csiProtoPath());
  const driver = csiClient({ socket, services, clock: systemClock, signal: stopping.signal });
  const claims = new Informer({ resource: claimsIn(client) });
  const running = Promise.all([
    claims.run(stopping.signal),
    new VolumeController({ client, driver, claims, log: silentLog }).run(stopping.signal),
  ]);
  return {
    stop: async () => {
      stopping.abort();
      await running;
      driver.close();
    },
  };
}

export interface SnapshotProgramsOptions {
  paths: Record<SnapshotProgramName, string>;
  kubeconfig: string;
  /** The socket of the driver. */
  socket: string;
  /** Where they run, and write their logs. */
  dir: string;
}

/** Starts a program of external-snapshotter. */
export function startSnapshotProgram(
  name: SnapshotProgramName,
  { paths, kubeconfig, socket, dir }: SnapshotProgramsOptions,
  args: readonly string[] = [],
): Promise<Child> {
  return startChild({
    program: paths[name],
    args: [...snapshotProgramArguments(name, { kubeconfig, socket }), ...args],
    cwd: dir,
    logPath: `${dir}/${name}.log`,
    clock: systemClock,
  });
}

/** Starts all of them. */
export async function startSnapshotPrograms(
  options: SnapshotProgramsOptions,
): Promise<Record<SnapshotProgramName, Child>> {
  const started = snapshotProgramNames.map(async (name) => [name, await startSnapshotProgram(name, options)] as const);
  return Object.fromEntries(await Promise.all(started)) as Record<SnapshotProgramName, Child>;
}
