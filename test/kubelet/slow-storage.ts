import { join } from "node:path";
import { stringify } from "yaml";
import * as z from "zod";
import { delay, systemClock } from "../../src/base/clock.ts";

import type { KubeClient } from "../../src/kube/kube-client.ts";
import { ObjectMeta } from "../../src/kube/object.ts";
import { clusterRef } from "../../src/kube/resource-ref.ts";
import { volumeObjects } from "../../src/local/supervisor/seed-cluster.ts";
import { csiClient, mountCapability } from "../setup/csi-client.ts";
import { startCsiDriver } from "../setup/csi-driver.ts";
import type { ClusterSetting, SecondNode } from "./node.ts";
import type { World } from "./world.ts";

const Attachment = z.looseObject({
  metadata: ObjectMeta,
  spec: z.looseObject({ nodeName: z.string() }),
  status: z.looseObject({ attached: z.boolean() }).optional(),
});
const attachments = clusterRef("storage.k8s.io/v1", "VolumeAttachment");
const finalizer = "test.ramet.dev/attached";

export interface SlowStorage {
  /** The StorageClass of its one volume. */
  storageClass: string;
  /** The nodes that have the volume, also while they are to detach it. */
  nodes: () => Promise<string[]>;
  /** Detaches what the cluster wants to have detached. */
  detach: () => Promise<void>;
  stop: () => Promise<void>;
}

/**
 * A volume that both nodes can mount, with the real driver, kubelets and attach-detach controller. Stands in for external-attacher and for
 * a storage that attaches a volume at once, and detaches it when the test says so.
 */
export async function startSlowStorage(
  { dir }: ClusterSetting,
  { world, client, nodeB }: { world: World; client: KubeClient; nodeB: SecondNode },
): Promise<SlowStorage> {
  const directory = join(dir, "slow-volumes");
  const plugin = (kubelet: string) => join(kubelet, "plugins", "local.csi.ramet.dev");
  const start = (nodeId: string, kubeletDirectory: string, entering?: SecondNode["entering"]) =>
    startCsiDriver(plugin(kubeletDirectory), directory, { nodeId, kubeletDirectory, entering });
  const drivers = [
    await start("node-a", join(dir, "kubelet")),
    await start("node-b", join(dir, "node-b", "kubelet"), nodeB.entering),
  ];
  const csi = csiClient(drivers[0]?.endpoint ?? "");
  const capacity = { storage: "1Gi" };
  const { volumeId } = await csi.createVolume({
    name: "slow",
    capacityRange: { requiredBytes: 1 << 30 },
    volumeCapabilities: [mountCapability],
  });
  csi.close();
  const { driver, storageClass } = volumeObjects();
  const own = { ...storageClass, metadata: { name: "slow" } };
  const volume = {
    apiVersion: "v1",
    kind: "PersistentVolume",
    metadata: { name: "slow" },
    spec: {
      capacity,
      accessModes: ["ReadWriteOnce"],
      storageClassName: "slow",
      persistentVolumeReclaimPolicy: "Retain",
      csi: { driver: driver.metadata.name, volumeHandle: volumeId },
    },
  };
  const objects = [{ ...driver, spec: { ...driver.spec, attachRequired: true } }, own, volume];
  const manifest = objects.map((object) => stringify(object)).join("---\n");
  await world.apply(manifest);

  const resource = client.resource(attachments, (value) => Attachment.parse(value));
  const all = async () => (await resource.list()).items;
  const attach = async (): Promise<void> => {
    for (const one of await all()) {
      if (one.metadata.deletionTimestamp !== undefined || one.status?.attached === true) continue;
      const { metadata } = await resource.addFinalizer(one, finalizer);
      await resource.mergePatch(metadata, { status: { attached: true } }, { subresource: "status" });
    }
  };
  const stopping = new AbortController();
  const attaching = (async () => {
    while (!stopping.signal.aborted) {
      await attach().catch(() => undefined);
      await delay(systemClock, 250);
    }
  })();
  const detach = async (): Promise<void> => {
    for (const one of await all())
      if (one.metadata.deletionTimestamp !== undefined) await resource.removeFinalizer(one, finalizer);
  };
  return {
    storageClass: "slow",
    nodes: async () => (await all()).map(({ spec }) => spec.nodeName),
    detach,
    stop: async () => {
      await world.kubectl("delete", "pv,storageclass", "slow", "--wait=false");
      await world.kubectl("delete", "csidriver", driver.metadata.name);
      stopping.abort();
      await attaching;
      await detach();
      for (const { process } of drivers) await process.stop();
    },
  };
}
