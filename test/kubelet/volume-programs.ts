import { join } from "node:path";
import { inject } from "vitest";
import { KubeClient } from "../../src/kube/kube-client.ts";
import { connectionFromKubeconfig } from "../../src/kube/kubeconfig.ts";
import { snapshotResources } from "../../src/kube/volumes/snapshots.ts";
import { seedVolumes, volumeObjects } from "../../src/local/supervisor/seed-cluster.ts";
import { type CsiDriver, startCsiDriver } from "../setup/csi-driver.ts";
import { runVolumeController, startSnapshotPrograms } from "../setup/volume-controller.ts";
import type { World } from "./world.ts";

export interface VolumePrograms {
  readonly driver: CsiDriver;
  /** Kills the driver, and starts it again. csi-snapshotter ends with it, and its Pod would start it again. */
  restartDriver(): Promise<void>;
  stop(): Promise<void>;
}

/**
 * Starts `ramet csi-driver` on the node, registered with its kubelet, beside external-snapshotter and the provisioner of local
 * clusters. They are processes of the machine, because no Pod may be privileged here: the driver mounts in the mount namespace of
 * the kubelet and of containerd.
 */
export async function startVolumePrograms(): Promise<VolumePrograms> {
  const { kubeconfig, dir, snapshotPrograms: paths } = inject("cluster");
  const kubeletDirectory = join(dir, "kubelet");
  const plugin = join(kubeletDirectory, "plugins", "local.csi.ramet.dev");
  const start = (): Promise<CsiDriver> =>
    startCsiDriver(plugin, join(dir, "volumes"), { nodeId: "node-a", kubeletDirectory });
  let driver = await start();
  const socket = driver.endpoint.replace("unix://", "");
  const client = new KubeClient(await connectionFromKubeconfig({ path: kubeconfig }));
  await seedVolumes(client);
  const snapshotOptions = { paths, kubeconfig, socket, dir };
  let programs = await startSnapshotPrograms(snapshotOptions);
  const provisioner = runVolumeController(client, socket);
  return {
    get driver() {
      return driver;
    },
    restartDriver: async () => {
      await driver.process.kill();
      driver = await start();
      for (const child of Object.values(programs)) await child.stop();
      programs = await startSnapshotPrograms(snapshotOptions);
    },
    stop: async () => {
      await provisioner.stop();
      for (const child of [...Object.values(programs), driver.process]) await child.stop();
      await client.close();
    },
  };
}

/** Removes what `seedVolumes` has declared, because other tests expect a cluster without it. */
export async function removeVolumeObjects({ kubectl }: World): Promise<void> {
  const { driver, storageClass } = volumeObjects();
  const crds = Object.values(snapshotResources).map(({ plural, group }) => `${plural}.${group}`);
  await kubectl("delete", "crd", ...crds);
  for (const { kind, metadata } of [driver, storageClass]) await kubectl("delete", kind, metadata.name);
}
