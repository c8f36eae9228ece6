import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { KubeClient } from "../../src/kube/kube-client.ts";
import type { Child } from "../../src/local/control-plane/child.ts";
import { seedVolumes } from "../../src/local/supervisor/seed-cluster.ts";
import { acquirePinned } from "../../src/local/tools/acquire-tools.ts";
import {
  pinnedSnapshotProgram,
  type SnapshotProgramName,
  snapshotProgramNames,
} from "../../src/local/volumes/snapshot-programs.ts";
import { type TestControlPlane, startControlPlane } from "./control-plane.ts";
import { type CsiDriver, startCsiDriver } from "./csi-driver.ts";
import { runVolumeController, startSnapshotProgram, startSnapshotPrograms } from "./volume-controller.ts";

/**
 * A real API server with the real driver, the real snapshot-controller and csi-snapshotter, and the provisioner of local clusters.
 * No node runs, so tests read and write the volumes' directories themselves.
 */
export interface VolumeCluster {
  client: KubeClient;
  driver: CsiDriver;
  /** The kubeconfig of the administrator. */
  kubeconfigPath: string;
  programs: Record<SnapshotProgramName, Child>;
  /** Ends a program and starts it again, with arguments after its own. */
  restart(name: SnapshotProgramName, args?: readonly string[]): Promise<void>;
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
  const options = { paths, kubeconfig: plane.kubeconfigPath, socket, dir };
  const programs = await startSnapshotPrograms(options);
  const controller = runVolumeController(client, socket);
  return {
    client,
    driver,
    kubeconfigPath: plane.kubeconfigPath,
    programs,
    restart: async (name, args) => {
      await programs[name].stop();
      programs[name] = await startSnapshotProgram(name, options, args);
    },
    stop: async () => {
      await controller.stop();
      await stopAll(Object.values(programs), driver, plane);
      await client.close();
      await rm(dir, { recursive: true, force: true });
    },
  };
}

async function stopAll(children: readonly Child[], driver: CsiDriver, plane: TestControlPlane): Promise<void> {
  await Promise.all(children.map((child) => child.stop()));
  await driver.process.stop();
  await plane.stop();
}
