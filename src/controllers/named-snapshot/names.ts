import { digestOf } from "../../api/cell/template-digest.ts";
import type { SnapshotBuild } from "../../api/kinds/named-snapshot-status.ts";

/** Names of what belongs to a named snapshot: deterministic, so that a repeat finds what the first try made. */

/** The Sandbox in which a build runs; another attempt has another one. */
export function builderName(snapshot: string, { digest, startedAt, attempt }: SnapshotBuild): string {
  return `${snapshot}-build-${hexOf(digestOf([digest, startedAt, attempt]), 8)}`;
}

/** The Checkpoint behind a version. */
export function versionCheckpointName(snapshot: string, digest: string): string {
  return `${snapshot}-${hexOf(digest, 12)}`;
}

/** The Checkpoint of the state after a step. */
export function stepCheckpointName(snapshot: string, stepDigest: string): string {
  return `${snapshot}-step-${hexOf(stepDigest, 12)}`;
}

/** The Checkpoint of a sandbox from which a version is built. */
export function sourceCheckpointName(snapshot: string, base: string): string {
  return `${snapshot}-source-${hexOf(base, 12)}`;
}

/** By which a command of a step is known to the guest. */
export function stepTag(index: number, stepDigest: string): string {
  return `ramet-step-${index + 1}-${hexOf(stepDigest, 12)}`;
}

/** A digest as a label's value, which holds 63 characters: 40 hex digits are enough to find, the whole one is compared. */
export function digestLabel(digest: string): string {
  return hexOf(digest, 40);
}

export function hexOf(digest: string, length: number): string {
  return digest.slice("sha256:".length, "sha256:".length + length);
}

/** The ConfigMap with what the steps of a build printed. */
export function logName(snapshot: string, digest: string): string {
  return `${snapshot}-log-${hexOf(digest, 12)}`;
}

/** Its keys: `step-001.log`, in the order of the steps when they are sorted. */
export function logKey(index: number): string {
  return `step-${String(index + 1).padStart(3, "0")}.log`;
}

/** Names the call that carries out a step in a builder. */
export function attemptId(builderUid: string, index: number): string {
  return `${builderUid}/${index}`;
}
