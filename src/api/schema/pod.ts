import * as z from "zod";
import { Condition, ObjectMeta, type OwnerReference } from "./metadata.ts";
import { PodSpec } from "./pod-template.ts";

export const podPhases = ["Pending", "Running", "Succeeded", "Failed", "Unknown"] as const;

const ContainerStatus = z.looseObject({
  name: z.string(),
  ready: z.boolean().optional(),
  started: z.boolean().optional(),
  restartCount: z.number().int().optional(),
  imageID: z.string().optional(),
  state: z
    .looseObject({
      waiting: z.looseObject({ reason: z.string().optional(), message: z.string().optional() }).optional(),
      running: z.looseObject({ startedAt: z.string().optional() }).optional(),
      terminated: z
        .looseObject({
          exitCode: z.number().int(),
          reason: z.string().optional(),
          message: z.string().optional(),
          finishedAt: z.string().nullish(),
        })
        .optional(),
    })
    .optional(),
});

/** The parts of a Kubernetes Pod that Ramet reads. Other fields pass through unchanged. */
export const Pod = z.looseObject({
  metadata: ObjectMeta,
  spec: PodSpec.extend({ nodeName: z.string().optional() }),
  status: z
    .looseObject({
      phase: z.enum(podPhases).optional(),
      reason: z.string().optional(),
      message: z.string().optional(),
      podIP: z.string().optional(),
      conditions: z
        .array(Condition.partial({ reason: true, message: true }).extend({ lastTransitionTime: z.string().nullish() }))
        .optional(),
      containerStatuses: z.array(ContainerStatus).optional(),
      initContainerStatuses: z.array(ContainerStatus).optional(),
    })
    .optional(),
});
export type Pod = z.infer<typeof Pod>;

/** A Pod to create. */
export interface PodManifest {
  apiVersion: "v1";
  kind: "Pod";
  metadata: {
    name: string;
    namespace: string;
    labels: Record<string, string>;
    annotations: Record<string, string>;
    ownerReferences: OwnerReference[];
  };
  spec: z.infer<typeof PodSpec>;
}

/** Whether the Pod's Ready condition is True. */
export function isPodReady(pod: Pod): boolean {
  return pod.status?.conditions?.some(({ type, status }) => type === "Ready" && status === "True") ?? false;
}

/** The reasons of a waiting container whose image cannot be pulled (kubelet, pkg/kubelet/images/types.go). */
export const pullReasons: ReadonlySet<string> = new Set([
  "ErrImagePull",
  "ImagePullBackOff",
  "ErrImageNeverPull",
  "InvalidImageName",
  "ImageInspectError",
  "RegistryUnavailable",
  "SignatureValidationFailed",
]);
