import type { KubeClient } from "../../src/kube/kube-client.ts";
import { groupKindsOf } from "../../src/kube/volumes/snapshots.ts";
import { volumeObjects } from "../../src/local/supervisor/seed-cluster.ts";

/** Does something while the local driver has no VolumeGroupSnapshotClass, so that volumes are captured one by one. */
export async function withoutGroupClass<T>(client: KubeClient, work: () => Promise<T>): Promise<T> {
  const { groupClass } = volumeObjects();
  const kinds = await groupKindsOf(client);
  await kinds?.classes.delete(groupClass.metadata);
  try {
    return await work();
  } finally {
    await kinds?.classes.create(groupClass);
  }
}
