import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "../../src/base/clock.ts";
import { silentLog } from "../../src/base/log.ts";
import { csiClient } from "../../src/csi/client.ts";
import { loadCsiServices } from "../../src/csi/protocol.ts";
import { Informer } from "../../src/kube/informer.ts";
import { KubeClient } from "../../src/kube/kube-client.ts";
import { coreResources } from "../../src/kube/resource-ref.ts";
import { type Child, startChild } from "../../src/local/control-plane/child.ts";
import { seedVolumes } from "../../src/local/supervisor/seed-volumes.ts";
import { acquirePinned } from "../../src/local/tools/acquire-tools.ts";
import { csiProtoPath } from "../../src/local/volumes/csi-proto-path.ts";
import { Claim } from "../../src/kube/volumes/volumes.ts";
import {
  pinnedSnapshotProgram,
  snapshotProgramArguments,
  type SnapshotProgramName,
  snapshotProgramNames,
} from "../../src/local/volumes/snapshot-programs.ts";
import { VolumeController } from "../../src/local/volumes/volume-controller.ts";
import { type TestControlPlane, startControlPlane } from "./control-plane.ts";
import { type CsiDriver, startCsiDriver } from "./csi-driver.ts";

/**
 * A real API server with the real driver, the real snapshot-controller and csi-snapshotter, and the provisioner of local clusters.
 * No node runs, so tests read and write the volumes' directories themselves.
 */
export interface VolumeCluster {
  client: KubeClient;
  driver: CsiDriver;
  /** Of the administrator. */
  kubeconfigPath: string;
  programs: Record<SnapshotProgramName, Child>;
  stop(): Promise<void>;
}

export async function startVolumeCluster(): Promise<VolumeCluster> {
  const dir = await mkdtemp(join(tmpdir(), "ramet-volumes-"));
  const [plane, driver, paths] = await Promise.all([
    startControlPlane(),
    startCsiDriver(dir),
    acquirePinned(pinnedSnapshotProgram, { names: snapshotProgramNames }),
  ]);
  const client = new KubeClient(plane.connection);
  await seedVolumes(client);
  const socket = driver.endpoint.replace("unix://", "");
  const start = (name: SnapshotProgramName) =>
    startChild({
      program: paths[name],
      args: snapshotProgramArguments(name, { kubeconfig: plane.kubeconfigPath, socket }),
      cwd: dir,
      logPath: join(dir, `${name}.log`),
      clock: systemClock,
    });
  const programs = {
    "snapshot-controller": await start("snapshot-controller"),
    "csi-snapshotter": await start("csi-snapshotter"),
  };
  const controller = runVolumeController(client, socket);
  return {
    client,
    driver,
    kubeconfigPath: plane.kubeconfigPath,
    programs,
    stop: async () => {
      await controller.stop();
      await stopAll(Object.values(programs), driver, plane);
      await client.close();
      await rm(dir, { recursive: true, force: true });
    },
  };
}

function runVolumeController(client: KubeClient, socket: string): { stop(): Promise<void> } {
  const stopping = new AbortController();
  const services = loadCsiServices(csiProtoPath());
  const driver = csiClient({ socket, services, clock: systemClock, signal: stopping.signal });
  const claims = new Informer({
    resource: client.resource(coreResources.persistentVolumeClaims, (value) => Claim.parse(value)),
  });
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

async function stopAll(children: readonly Child[], driver: CsiDriver, plane: TestControlPlane): Promise<void> {
  await Promise.all(children.map((child) => child.stop()));
  await driver.process.stop();
  await plane.stop();
}
