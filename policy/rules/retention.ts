import * as z from "zod";
import { defineRule, kruise, namedSnapshotOf, specOf } from "../rule.ts";

/** There is a version to go back to, nothing is lost with its name, and nothing is kept for ever unsaid. */
export const retention = defineRule({
  name: "ramet-retention",
  description:
    "Named snapshots keep a bounded number of versions, also when they are removed, and checkpoints are kept for a time.",
  remedy: "Set keepVersions and deletionPolicy of the NamedSnapshot, or ttlAfterFinished of the Checkpoint.",
  settings: {
    minVersions: z
      .int()
      .min(1)
      .default(2)
      .describe("How many versions a named snapshot keeps at least; with one, there is none to go back to."),
    maxVersions: z.int().min(1).default(20).describe("How many versions a named snapshot keeps at most."),
    allowDelete: z.boolean().default(false).describe("Whether versions may go with their named snapshot."),
  },
  validate: (resource, { minVersions: fewest, maxVersions: most, allowDelete }) => {
    const checkpoint = specOf(resource, kruise, "Checkpoint");
    if (checkpoint !== undefined && checkpoint["ttlAfterFinished"] === undefined) {
      return ["ttlAfterFinished is not set, so the checkpoint is kept for ever"];
    }
    const snapshot = namedSnapshotOf(resource);
    if (snapshot === undefined) return [];
    // What is not set has the default of the API, which is within reason.
    const { keepVersions, deletionPolicy } = snapshot;
    const isOutside = typeof keepVersions === "number" && (keepVersions < fewest || keepVersions > most);
    return [
      ...(isOutside ? [`keepVersions is ${keepVersions}; it may be from ${fewest} to ${most}`] : []),
      ...(deletionPolicy === "Delete" && !allowDelete
        ? ["deletionPolicy is Delete, so all versions go with the name"]
        : []),
    ];
  },
});
