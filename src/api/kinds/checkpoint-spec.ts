import * as z from "zod";
import { defined } from "../../base/defined.ts";
import { parseDuration } from "../../base/duration.ts";
import type { Contents } from "../schema/metadata.ts";
import type { CheckpointSpec, Consistency, QuiesceCommand } from "./checkpoint.ts";
import { allVolumes } from "./sandbox-parts.ts";

/** Which volumes of a sandbox a checkpoint captures: all that are PersistentVolumeClaims, none, or those with these names. */
export type VolumeSelection = "all" | "none" | readonly string[];

/** The spec with its defaults filled in. */
export interface ResolvedCheckpointSpec {
  sandboxName: string;
  keepRunning: boolean;
  /** Empty: only volumes. */
  contents: Contents;
  volumes: VolumeSelection;
  consistency: Consistency;
  requireAtomic: boolean;
  quiesce: { before?: QuiesceCommand | undefined; after?: QuiesceCommand | undefined };
  /** Counted from the end of the capture. Undefined: the Checkpoint is kept until it is deleted. */
  ttlMilliseconds: number | undefined;
}

/** The fields of a sandbox, or of its template, about the contents of its checkpoints. */
export interface ContentFields {
  persistentContents?: readonly string[] | undefined;
  volumes?: readonly string[] | undefined;
}

/**
 * Returns the default contents of a sandbox's checkpoints. Its own `persistentContents` replaces both fields of its SandboxTemplate.
 * `volumes` without `persistentContents` selects these volumes.
 */
export function contentsByDefault(own: ContentFields = {}, named: ContentFields = {}): ContentFields {
  const { persistentContents, volumes } =
    own.persistentContents === undefined ? { ...named, ...defined({ volumes: own.volumes }) } : own;
  const selects = volumes !== undefined && persistentContents?.includes("volumes") !== true;
  return {
    ...(selects ? { persistentContents: [...(persistentContents ?? []), "volumes"] } : { persistentContents }),
    volumes,
  };
}

/**
 * Fills in the defaults of a Checkpoint's spec. Only `memory`, `filesystem` and `volumes` are contents of a checkpoint; other words
 * select nothing. Without any of them, they are those of the sandbox. If neither has `memory` or `filesystem`, they are both, unless
 * the Checkpoint itself lists only `volumes`: memory alone cannot be restored.
 * @param source what the checkpoints of the source contain by default
 * @throws RametError `InvalidArgument` for a TTL that is not a duration
 */
export function resolveCheckpointSpec(spec: CheckpointSpec, source: ContentFields = {}): ResolvedCheckpointSpec {
  const own = spec.persistentContents?.filter((word) => contentWords.has(word)) ?? [];
  const requested = own.length > 0 ? own : (source.persistentContents ?? []);
  return {
    sandboxName: spec.sandboxName ?? spec.podName ?? "",
    keepRunning: spec.keepRunning ?? true,
    contents: isOnlyVolumes(own) ? [] : mainContents(requested),
    volumes: selectedVolumes(spec.volumes, requested, source.volumes),
    ...resolvedConsistency(spec),
    ttlMilliseconds:
      spec.ttlAfterFinished === undefined ? undefined : parseDuration(spec.ttlAfterFinished, "spec.ttlAfterFinished"),
  };
}

function selectedVolumes(
  own: readonly string[] | undefined,
  contents: readonly string[],
  bySource: readonly string[] | undefined,
): VolumeSelection {
  const named = own ?? (contents.includes("volumes") ? (bySource ?? [allVolumes]) : undefined);
  if (named === undefined) return "none";
  return named.includes(allVolumes) ? "all" : named;
}

function resolvedConsistency({ consistency, requireAtomic = false, quiesce }: CheckpointSpec) {
  const byDefault = requireAtomic ? "atomic" : quiesce === undefined ? "crash" : "quiesced";
  return { consistency: consistency ?? byDefault, requireAtomic, quiesce: quiesce ?? {} } as const;
}

const contentWords = new Set(["memory", "filesystem", "volumes"]);

function isOnlyVolumes(words: readonly string[]): boolean {
  return words.length > 0 && words.every((word) => word === "volumes");
}

function mainContents(words: readonly string[]): Contents {
  return words.includes("memory") || !words.includes("filesystem") ? ["memory", "filesystem"] : ["filesystem"];
}

/** How the VolumeSnapshots of a Checkpoint are made, in its annotation `ramet.dev/volume-snapshot`. */
export const VolumeSnapshotRequest = z.object({
  /** With one volume. The VolumeSnapshot then owns the Checkpoint, which is deleted with it. @default chosen by the backend */
  name: z.string().optional(),
  /** The VolumeSnapshotClass. @default chosen by the driver of each volume */
  className: z.string().optional(),
});
export type VolumeSnapshotRequest = z.infer<typeof VolumeSnapshotRequest>;
