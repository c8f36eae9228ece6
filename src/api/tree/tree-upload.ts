import type { Checkpoint } from "../kinds/checkpoint.ts";
import { annotations, labels } from "../names/labels.ts";

/**
 * An uploaded directory tree is the file `treeArchive` of a sandbox that was captured for it. So the store holds it like every other
 * checkpoint, and its object is a Checkpoint of the namespace. docs/decisions/0024 has the reasons.
 */

/** The purpose of such Checkpoints, and of the sandboxes that they are captured from. */
export const treePurpose = "tree";

/** The archive in a sandbox: tar without compression. Not in /tmp, which a checkpoint of files may not contain. */
export const treeArchive = "/.ramet-tree.tar";

/** The user who writes and reads the archive. */
export const treeUser = "0";

/** The name of the Checkpoint of a tree. @param digest 64 hex digits, which identify the content */
export function treeCheckpointName(digest: string): string {
  return `tree-${digest.slice(0, 40)}`;
}

/** The metadata of the Checkpoint. @param sha256 of the archive, 64 hex digits */
export function treeMetadata({ namespace, digest, sha256 }: { namespace: string; digest: string; sha256: string }) {
  return {
    namespace,
    name: treeCheckpointName(digest),
    labels: { [labels.purpose]: treePurpose },
    annotations: { [annotations.tree]: digest, [annotations.treeArchive]: sha256 },
  };
}

export interface UploadedTree {
  checkpointId: string;
  /** The digest of the archive: 64 hex digits. */
  sha256: string;
}

/** The tree of a Checkpoint. Undefined: it is not, or not yet, the tree with this digest. */
export function uploadedTree(checkpoint: Checkpoint | undefined, digest: string): UploadedTree | undefined {
  const { metadata, status } = checkpoint ?? {};
  const isUsable = status?.phase === "Succeeded" && metadata?.deletionTimestamp === undefined;
  const { [annotations.tree]: tree, [annotations.treeArchive]: sha256 } = metadata?.annotations ?? {};
  if (!isUsable || tree !== digest || sha256 === undefined || status.checkpointId === undefined) return undefined;
  return { checkpointId: status.checkpointId, sha256 };
}
