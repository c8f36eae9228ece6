import * as z from "zod";
import { goDurationPattern, parseDuration } from "../../base/duration.ts";
import { defineKind } from "../schema/kind.ts";
import { Conditions, ObservedGeneration, openString, StatusMessage, Time } from "../schema/metadata.ts";
import { int32, listBy, SchemalessObject, withRules } from "../schema/rules.ts";
import { Problems } from "../schema/problem.ts";
import { Runtimes } from "./sandbox-parts.ts";

export const sandboxClaimPhases = ["Claiming", "Completed"] as const;

const StringMap = z.record(z.string(), z.string());

export const CsiMountConfig = z.object({
  mountID: z.string().optional().describe("Identifies the mount."),
  pvName: z.string().describe("The PersistentVolume to mount."),
  mountPath: z.string().describe("Where it is mounted in the sandbox."),
  subPath: z.string().optional().describe("The directory of the volume to mount. Default: all of it."),
  readOnly: z.boolean().optional().describe("Whether the sandbox can only read it."),
  attributes: StringMap.optional().describe("Attributes for the CSI driver."),
});

export const SandboxClaimSpec = z.object({
  templateName: z.string().describe("A SandboxSet in the same namespace."),
  replicas: withRules(int32.min(1), [{ cel: "self == oldSelf", message: "replicas is immutable" }])
    .default(1)
    .describe("The number of sandboxes to claim."),
  shutdownTime: Time.optional().describe("Copied to each claimed sandbox."),
  claimTimeout: atLeastOneSecond("claimTimeout")
    .default("1m")
    .describe("After this time, the claim completes with the sandboxes it has."),
  ttlAfterCompleted: z
    .string()
    .regex(goDurationPattern, "must be a duration like 60m, or a negative one")
    .default("60m")
    .describe("How long a completed claim is kept before it is deleted. The sandboxes stay. Negative: forever."),
  labels: StringMap.optional().describe("Labels to add to each claimed sandbox."),
  annotations: StringMap.optional().describe("Annotations to add to each claimed sandbox."),
  envVars: StringMap.optional().describe("Environment variables of the commands in each claimed sandbox."),
  inplaceUpdate: z
    .object({
      image: z.string().optional().describe("The new image."),
      resources: z
        .object({
          requests: SchemalessObject.optional().describe("The new requests."),
          limits: SchemalessObject.optional().describe("The new limits."),
        })
        .optional()
        .describe("The new resources."),
    })
    .optional()
    .describe(
      "Changes of a running sandbox. Not supported: a claim that requests one completes immediately with an alternative.",
    ),
  dynamicVolumesMount: listBy("mountPath", CsiMountConfig)
    // The CRD expresses this by the key of the list.
    .refine(
      (mounts) => new Set(mounts.map(({ mountPath }) => mountPath)).size === mounts.length,
      "must not mount two volumes at one path",
    )
    .optional()
    .describe(
      "Volumes to mount into a running sandbox. Not supported: a claim that requests one completes immediately with an alternative.",
    ),
  runtimes: Runtimes.optional(),
  reserveFailedSandbox: z.boolean().optional().describe("Whether a sandbox that could not be claimed is kept."),
  createOnNoStock: z.boolean().default(true).describe("Whether to create a new sandbox if the set has no ready one."),
  waitReadyTimeout: atLeastOneSecond("waitReadyTimeout")
    .default("30s")
    .describe("How long a claimed sandbox may take to become ready before a ready one of the set replaces it."),
  skipInitRuntime: z.boolean().default(false).describe("Whether the guest gets no variables and no token."),
});
export type SandboxClaimSpec = z.infer<typeof SandboxClaimSpec>;

export const SandboxClaimStatus = z.object({
  observedGeneration: ObservedGeneration,
  phase: openString(sandboxClaimPhases).optional().describe("Claiming or Completed."),
  message: StatusMessage,
  claimedReplicas: int32.optional().describe("The number of sandboxes claimed so far."),
  claimStartTime: Time.optional().describe("When the claim started."),
  completionTime: Time.optional().describe("When the claim completed."),
  conditions: Conditions.optional(),
  ramet: z
    .object({
      sandboxes: z.array(z.string()).optional().describe("The names of the claimed sandboxes."),
      problems: Problems,
    })
    .optional()
    .describe("Fields that Ramet adds to the status of OpenKruise Agents."),
});
export type SandboxClaimStatus = z.infer<typeof SandboxClaimStatus>;

export const sandboxClaimKind = defineKind({
  kind: "SandboxClaim",
  plural: "sandboxclaims",
  singular: "sandboxclaim",
  shortNames: ["sbc"],
  description: "Claims ready sandboxes of a set.",
  spec: SandboxClaimSpec,
  status: SandboxClaimStatus,
  columns: [
    { name: "Phase", type: "string", jsonPath: ".status.phase" },
    { name: "Template", type: "string", jsonPath: ".spec.templateName" },
    { name: "Desired", type: "integer", jsonPath: ".spec.replicas" },
    { name: "Claimed", type: "integer", jsonPath: ".status.claimedReplicas" },
    { name: "Age", type: "date", jsonPath: ".metadata.creationTimestamp" },
  ],
});
export const SandboxClaim = sandboxClaimKind.object;
export type SandboxClaim = z.infer<typeof SandboxClaim>;

/** A Go duration of at least one second. */
function atLeastOneSecond(field: string) {
  return withRules(z.string(), [
    {
      cel: "duration(self) >= duration('1s')",
      message: `${field} must be a duration of at least 1s, like 30s or 1m`,
      holds: (text) => goDurationPattern.test(text) && parseDuration(text) >= 1000,
    },
  ]);
}
