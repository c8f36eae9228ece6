import * as z from "zod";
import { parseTimeSpan } from "../../provider/handlers/time-span.ts";
import { defineRule, inputsOfClass, kruise, specOf, namedSnapshotOf } from "../rule.ts";

/** Makes sure that forgotten sandboxes end. */
export const boundedLifetimes = defineRule({
  name: "ramet-bounded-lifetimes",
  description: "Clones, sandboxes and claims must end within a maximum lifetime.",
  remedy: "Set lifetime of the SandboxClone, or shutdownTime of the Sandbox or SandboxClaim.",
  settings: {
    maxLifetime: z
      .string()
      .default("7 days")
      .describe('Maximum lifetime of a sandbox, such as "8 hours".')
      .transform((text) => ({ text, milliseconds: parseTimeSpan(text, "maxLifetime") })),
  },
  validate: (resource, { maxLifetime: { text: longest, milliseconds: most } }, now) => {
    const clone = inputsOfClass(resource, "SandboxClone");
    if (clone !== undefined) {
      const { lifetime } = WithLifetime.parse(clone);
      if (lifetime === undefined) return [`lifetime is not set; the maximum is ${longest}`];
      return parseTimeSpan(lifetime, "lifetime") > most ? [`lifetime is ${lifetime}; the maximum is ${longest}`] : [];
    }
    const spec = specOf(resource, kruise, "Sandbox") ?? specOf(resource, kruise, "SandboxClaim");
    if (spec === undefined) return [];
    const { shutdownTime } = WithShutdown.parse(spec);
    if (shutdownTime === undefined) return [`shutdownTime is not set; the maximum is ${longest} from now`];
    return Date.parse(shutdownTime) - now.getTime() > most
      ? [`shutdownTime is ${shutdownTime}; the maximum is ${longest} from now`]
      : [];
  },
});

const WithLifetime = z.object({ lifetime: z.string().optional() });
const WithShutdown = z.object({ shutdownTime: z.string().optional() });

/** Catches mistakes such as an additional zero, which would fill the cluster. */
export const boundedReplicas = defineRule({
  name: "ramet-bounded-replicas",
  description: "Sets and claims must not exceed the maximum number of sandboxes.",
  remedy: "Reduce the replicas, or ask for a higher maximum.",
  settings: {
    maxReplicas: z.int().min(0).default(100).describe("Maximum number of sandboxes of a set or a claim."),
  },
  validate: (resource, { maxReplicas }) => {
    const spec = specOf(resource, kruise, "SandboxSet") ?? specOf(resource, kruise, "SandboxClaim");
    const replicas = spec?.["replicas"];
    return typeof replicas === "number" && replicas > maxReplicas
      ? [`replicas is ${replicas}; the maximum is ${maxReplicas}`]
      : [];
  },
});

/** Keeps a version for rollbacks, keeps versions when a name is deleted, and prevents unlimited retention by accident. */
export const retention = defineRule({
  name: "ramet-retention",
  description:
    "Named snapshots must keep a limited number of versions, also when they are deleted, and checkpoints must expire.",
  remedy: "Set keepVersions and deletionPolicy of the NamedSnapshot, or ttlAfterFinished of the Checkpoint.",
  settings: {
    minVersions: z
      .int()
      .min(1)
      .default(2)
      .describe("Minimum number of versions of a named snapshot. With one version no rollback is possible."),
    maxVersions: z.int().min(1).default(20).describe("Maximum number of versions of a named snapshot."),
    allowDelete: z.boolean().default(false).describe("Whether deletionPolicy may be Delete."),
  },
  validate: (resource, { minVersions: fewest, maxVersions: most, allowDelete }) => {
    const checkpoint = specOf(resource, kruise, "Checkpoint");
    if (checkpoint !== undefined && checkpoint["ttlAfterFinished"] === undefined) {
      return ["ttlAfterFinished is not set, so the checkpoint is kept forever"];
    }
    const snapshot = namedSnapshotOf(resource);
    if (snapshot === undefined) return [];
    // Unset fields have the API's default, which is fine.
    const { keepVersions, deletionPolicy } = snapshot;
    const isOutside = typeof keepVersions === "number" && (keepVersions < fewest || keepVersions > most);
    return [
      ...(isOutside ? [`keepVersions is ${keepVersions}; it must be from ${fewest} to ${most}`] : []),
      ...(deletionPolicy === "Delete" && !allowDelete
        ? ["deletionPolicy is Delete, so all versions are deleted with the named snapshot"]
        : []),
    ];
  },
});
