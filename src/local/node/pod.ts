import * as z from "zod";
import type { ImageConfig } from "../../api/pod/resolved-image.ts";
import { labels } from "../../api/names/labels.ts";
import { Pod } from "../../api/schema/pod.ts";
import { RametError } from "../../base/errors.ts";
import type { KubeClient } from "../../kube/kube-client.ts";
import { ObjectMeta } from "../../kube/object.ts";
import { coreResources } from "../../kube/resource-ref.ts";

/** A Pod as the node reads it. */
export const NodePod = Pod.extend({ apiVersion: z.string().optional(), kind: z.string().optional() });
export type NodePod = z.infer<typeof NodePod>;
export type NodePodStatus = NonNullable<NodePod["status"]>;

/** Whether the node may bind the Pod: it is a cell's Pod and has no node. */
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

/** Whether a Pod has containers besides the sandbox's. */
export function hasSideContainers({ spec }: NodePod): boolean {
  return spec.containers.length > 1 || (spec.initContainers?.length ?? 0) > 0;
}

/** Why a container waits after its start has failed, as a kubelet reports it. */
export function waitingFor(error: RametError, pullPolicy: string | undefined): { reason: string; message: string } {
  const message = error.hint === undefined ? error.message : `${error.message}. ${error.hint}`;
  if (error.code !== "ImageNotFound") return { reason: "CreateContainerError", message };
  return { reason: pullPolicy === "Never" ? "ErrImageNeverPull" : "ImagePullBackOff", message };
}

/** How long a Pod's processes may take to end after SIGTERM. */
export function graceMilliseconds(pod: NodePod | undefined): number {
  const seconds = pod?.metadata.deletionGracePeriodSeconds ?? pod?.spec.terminationGracePeriodSeconds ?? 30;
  return seconds * 1000;
}

/** An unpacked image of this machine. */
export interface NodeImage {
  rootPath: string;
  config: Omit<ImageConfig, "digest">;
  digest: string;
  /** Keeps it on the machine while that directory exists. @throws RametError `ImageNotFound` if it was just removed */
  hold?(directory: string): Promise<void>;
}

/** Provides the images of Pods. */
export interface ImageSource {
  /**
   * Returns the image. Pulls it if it is missing and `pull` allows it.
   * @throws RametError `ImageNotFound`
   */
  image(reference: string, pull: "Always" | "IfNotPresent" | "Never"): Promise<NodeImage>;
  /** Called when a Pod is deleted: its image may no longer be needed. */
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
export type PodObjects = ReturnType<typeof podObjects>;

export function podObjects(client: KubeClient) {
  /** The values by key. Undefined for a missing optional object. @throws RametError `NotFound` */
  const read = async (kind: "configMaps" | "secrets", request: ObjectRequest) => {
    const { namespace, name, optional } = request;
    const resource = client.resource(coreResources[kind], (value) => Keyed.parse(value));
    const found = await resource.find({ namespace, name });
    if (found === undefined && optional) return undefined;
    if (found === undefined) {
      const why = `the ${coreResources[kind].kind} ${name} does not exist`;
      throw new RametError("NotFound", `Starting the Pod failed: ${why}`, {
        hint: `Create it in namespace ${namespace}; the Pod then starts`,
      });
    }
    const base64 = (values: z.infer<typeof Data>): [string, Buffer][] =>
      Object.entries(values ?? {}).map(([key, value]) => [key, Buffer.from(value, "base64")]);
    if (kind === "secrets") return new Map(base64(found.data));
    const plain = Object.entries(found.data ?? {}).map(([key, value]): [string, Buffer] => [key, Buffer.from(value)]);
    return new Map([...plain, ...base64(found.binaryData)]);
  };
  return { read };
}
