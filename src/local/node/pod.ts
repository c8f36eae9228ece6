import * as z from "zod";
import { labels } from "../../api/names/labels.ts";
import { Pod } from "../../api/schema/pod.ts";
import { RametError } from "../../base/errors.ts";
import type { ImageConfig } from "../../cell/setting/cell-setting.ts";
import type { KubeClient } from "../../kube/kube-client.ts";
import { ObjectMeta } from "../../kube/object.ts";
import { coreResources } from "../../kube/resource-ref.ts";

/** A Pod as the node reads it. */
export const NodePod = Pod.extend({ apiVersion: z.string().optional(), kind: z.string().optional() });
export type NodePod = z.infer<typeof NodePod>;
export type NodePodStatus = NonNullable<NodePod["status"]>;

/** Whether the node may take the Pod to itself: it was made for a cell and nobody has given it a node. */
export function awaitsNode(pod: NodePod): boolean {
  return (
    pod.spec.nodeName === undefined &&
    pod.metadata.deletionTimestamp === undefined &&
    pod.metadata.labels?.[labels.cell] === "true"
  );
}

export function hasEnded(pod: NodePod): boolean {
  return pod.status?.phase === "Succeeded" || pod.status?.phase === "Failed";
}

/** How long a Pod's processes may take to end after SIGTERM. */
export function graceMilliseconds(pod: NodePod | undefined): number {
  const seconds = pod?.metadata.deletionGracePeriodSeconds ?? pod?.spec.terminationGracePeriodSeconds ?? 30;
  return seconds * 1000;
}

/** An image that the machine has, as a directory. */
export interface NodeImage {
  rootPath: string;
  config: Omit<ImageConfig, "digest">;
  digest: string;
  /** Keeps it on the machine as long as that directory exists. @throws RametError `ImageNotFound` if it has just gone */
  hold?(directory: string): Promise<void>;
}

/** Where the node gets its Pods' images from. */
export interface ImageSource {
  /**
   * The image, pulled first if it is not there and `pull` allows it.
   * @throws RametError `ImageNotFound`
   */
  image(reference: string, pull: "Always" | "IfNotPresent" | "Never"): Promise<NodeImage>;
  /** Called when a Pod that had one is gone: one that was replaced meanwhile need not be kept for it. */
  released?(): void;
}

const Data = z.record(z.string(), z.string()).nullish();
const Keyed = z.looseObject({ metadata: ObjectMeta, data: Data, binaryData: Data });

interface ObjectRequest {
  namespace: string;
  name: string;
  optional: boolean;
}

/** Reads the ConfigMaps and Secrets that Pods name. */
export class PodObjects {
  readonly #client: KubeClient;

  constructor(client: KubeClient) {
    this.#client = client;
  }

  /** The values by key; nothing for an object that is optional and not there. @throws RametError `NotFound` */
  async read(kind: "configMaps" | "secrets", request: ObjectRequest): Promise<Map<string, Buffer> | undefined> {
    const { namespace, name, optional } = request;
    const resource = this.#client.resource(coreResources[kind], (value) => Keyed.parse(value));
    const found = await resource.find({ namespace, name });
    if (found === undefined && optional) return undefined;
    if (found === undefined)
      throw new RametError("NotFound", `The ${coreResources[kind].kind} ${name} that the Pod names does not exist`, {
        hint: `Make it in namespace ${namespace}; the Pod is then started.`,
      });
    const base64 = (values: z.infer<typeof Data>): [string, Buffer][] =>
      Object.entries(values ?? {}).map(([key, value]) => [key, Buffer.from(value, "base64")]);
    if (kind === "secrets") return new Map(base64(found.data));
    const plain = Object.entries(found.data ?? {}).map(([key, value]): [string, Buffer] => [key, Buffer.from(value)]);
    return new Map([...plain, ...base64(found.binaryData)]);
  }
}
