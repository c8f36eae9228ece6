import { digestOf } from "../../api/schema/digest.ts";
import type { SnapshotBuild } from "../../api/kinds/named-snapshot-status.ts";

/**
 * The Sandbox in which a build runs; each attempt has another one. This and the other names are deterministic, so a repeat finds what
 * the first attempt created.
 */
export function builderName(snapshot: string, { digest, startedAt, attempt }: SnapshotBuild): string {
  return `${snapshot}-build-${hexOf(digestOf([digest, startedAt, attempt]), 8)}`;
}

/** The Checkpoint behind a version. `upgradeOf`: the version with the same digest that it replaces. */
export function versionCheckpointName(snapshot: string, digest: string, upgradeOf?: number): string {
  return `${snapshot}-${hexOf(digest, 12)}${upgradeOf === undefined ? "" : `-v${upgradeOf}`}`;
}

/** The Checkpoint of the state after a step. Each engine has its own. */
export function stepCheckpointName(snapshot: string, stepDigest: string, engine?: string): string {
  return `${snapshot}-step-${hexOf(engine === undefined ? stepDigest : digestOf([stepDigest, engine]), 12)}`;
}

/** The Checkpoint of a sandbox from which a version is built. */
export function sourceCheckpointName(snapshot: string, base: string): string {
  return `${snapshot}-source-${hexOf(base, 12)}`;
}

/** The tag by which the guest identifies the command of a step. */
export function stepTag(index: number, stepDigest: string): string {
  return `ramet-step-${index + 1}-${hexOf(stepDigest, 12)}`;
}

/** A digest shortened for a label value, which holds at most 63 characters. An annotation holds the whole digest. */
export function digestLabel(digest: string): string {
  return hexOf(digest, 40);
}

export function hexOf(digest: string, length: number): string {
  return digest.slice("sha256:".length, "sha256:".length + length);
}

/** The ConfigMap with the output of the steps of a build. */
export function logName(snapshot: string, digest: string): string {
  return `${snapshot}-log-${hexOf(digest, 12)}`;
}

/** A key of that ConfigMap: `step-001.log`. Sorted keys are in the order of the steps. */
export function logKey(index: number): string {
  return `step-${String(index + 1).padStart(3, "0")}.log`;
}

/** Identifies the call that runs a step in a builder. */
export function attemptId(builderUid: string, index: number): string {
  return `${builderUid}/${index}`;
}
