import * as z from "zod";
import { defineRule, kruise, namedSnapshotOf, specOf } from "../rule.ts";

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
