import { RametError } from "../../base/errors.ts";
import type { NamedSnapshot } from "../kinds/named-snapshot.ts";
import type { SnapshotVersion } from "../kinds/named-snapshot-status.ts";
import { printSnapshotReference, type SnapshotReference } from "./snapshot-reference.ts";

/**
 * The version that a reference means now.
 * @throws RametError `CheckpointNotReady` (retryable) when there is no version yet, `NotFound` when that one is not kept
 */
export function findVersion(snapshot: NamedSnapshot, reference: SnapshotReference): SnapshotVersion {
  const { status } = snapshot;
  const kept = status?.versions ?? [];
  const { version, digest } = reference;
  const isPinned = version !== undefined || digest !== undefined;
  const found = kept.find((one) =>
    isPinned ? one.version === version || one.digest === digest : one.version === status?.version,
  );
  if (found !== undefined) return found;
  const name = printSnapshotReference(reference);
  if (!isPinned) {
    throw new RametError("CheckpointNotReady", `The named snapshot ${name} has no version yet`, {
      retryable: true,
      hint: `See why with: ramet snapshot get ${name} -n ${snapshot.metadata.namespace}`,
    });
  }
  const numbers = kept.map((one) => one.version).join(", ") || "none";
  throw new RametError("NotFound", `The named snapshot ${reference.name} has no version ${name} (any more)`, {
    hint: `Kept are: ${numbers}`,
  });
}
