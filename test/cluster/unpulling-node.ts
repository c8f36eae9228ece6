import { labels } from "../../src/api/names/labels.ts";
import { Pod } from "../../src/api/schema/pod.ts";
import { Informer } from "../../src/kube/informer.ts";
import { coreResources } from "../../src/kube/resource-ref.ts";
import type { ClusterOptions } from "./controllers-cluster.ts";

/** The node's message about every image. */
export const words = 'Back-off pulling image "nosuch:9": manifest unknown';

/** A stand-in for a node that can pull no image, with the status that a kubelet writes. It proves nothing about pulls. */
export const startUnpullingNode: ClusterOptions["startNode"] = async ({ client, signal }) => {
  const pods = new Informer({
    resource: client.resource(coreResources.pods, (value) => Pod.parse(value)),
    labelSelector: `${labels.cell}=true`,
  });
  const running = pods.run(signal);
  await pods.synced(signal);
  pods.onChange(({ type, object: { metadata, status } }) => {
    if (type === "deleted") return;
    if (metadata.deletionTimestamp !== undefined) {
      pods.resource.delete(metadata, { uid: metadata.uid, gracePeriodSeconds: 0 }).catch(() => undefined);
    } else if (status?.containerStatuses === undefined) {
      const waiting = { reason: "ImagePullBackOff", message: words };
      const container = { name: "main", image: "", imageID: "", ready: false, restartCount: 0, state: { waiting } };
      const change = { status: { phase: "Pending", containerStatuses: [container] } };
      pods.resource.mergePatch(metadata, change, { subresource: "status" }).catch(() => undefined);
    }
  });
  return { stopped: running };
};
