import { hasFailed, isCloneable } from "../../api/state/checkpoint.ts";
import type { NamedSnapshotStatus, SnapshotVersion } from "../../api/kinds/named-snapshot-status.ts";
import { annotations, labels } from "../../api/names/labels.ts";
import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import { versionCheckpointName } from "./names.ts";
import type { SnapshotAction, SnapshotPlan, SnapshotState, DesiredVersion } from "./state.ts";
import { freshSteps, pointer, progressOf, withStatus } from "./status.ts";

/** The versions whose Checkpoints can still be cloned, oldest first. */
export function keptVersions({ snapshot, cloneable }: SnapshotState): SnapshotVersion[] {
  return (snapshot.status?.versions ?? []).filter(({ checkpointName }) => cloneable.has(checkpointName));
}

export function currentVersion(state: SnapshotState): SnapshotVersion | undefined {
  return keptVersions(state).find(({ version }) => version === state.snapshot.status?.version);
}

/** Makes a kept version with the desired digest current. Nothing is built. */
export function serve(state: SnapshotState, kept: SnapshotVersion, desired: DesiredVersion): SnapshotPlan {
  const { status, metadata } = state.snapshot;
  const isNew = status?.version !== kept.version;
  const ofBuild = status?.build?.digest === kept.digest;
  const steps =
    ofBuild && status.steps !== undefined ? status.steps : freshSteps(state, desired, desired.digest.steps.length);
  const changes = { ...status, versions: keptVersions(state), steps, progress: progressOf(steps) };
  return {
    actions: [
      ...removeBuilders(state),
      // Unneeded objects are deleted only after the status shows the new current version.
      ...(isNew ? [] : [...planRetention(state, kept), ...unneeded(state, desired)]),
    ],
    status: withStatus(state, pointer(changes, kept), {
      status: "False",
      reason: "Built",
      message: `Version ${kept.version} matches the spec`,
    }),
    ...(replacedVersions(state).size > 0 && { requeueAfterMilliseconds: replacedMilliseconds }),
    ...(isNew && {
      transitions: [
        {
          type: "Normal" as const,
          reason: "VersionServes",
          action: "MovePointer",
          note: `Version ${kept.version} of ${metadata.name} is current: it was kept and matches the spec`,
        },
      ],
    }),
  };
}

/**
 * Deletes versions beyond `keepVersions`, oldest first, except the current one and those that objects refer to. A version that
 * an upgrade has replaced does not count: it is deleted when nothing refers to it any more.
 */
export function planRetention(state: SnapshotState, current: SnapshotVersion | undefined): SnapshotAction[] {
  const { snapshot, cloneable, referrers, now } = state;
  const kept = keptVersions(state).filter(({ version }) => version !== current?.version);
  const replaced = replacedVersions(state);
  const others = kept.filter(({ version }) => !replaced.has(version));
  const room = snapshot.spec.keepVersions - (current === undefined ? 0 : 1);
  const overdue = kept
    .filter(({ version }) => (replaced.get(version) ?? Infinity) <= now.getTime())
    .filter(({ version }) => (referrers.get(version) ?? []).length === 0)
    .flatMap(({ checkpointName }): SnapshotAction[] => {
      const checkpoint = cloneable.get(checkpointName);
      return checkpoint === undefined ? [] : [{ do: "deleteCheckpoint", checkpoint }];
    });
  const beyond = others
    .toSorted((a, b) => b.version - a.version)
    .slice(Math.max(0, room))
    .filter(({ version }) => (referrers.get(version) ?? []).length === 0)
    .flatMap(({ checkpointName, digest }) => {
      const checkpoint = cloneable.get(checkpointName);
      if (checkpoint === undefined) return [];
      return [
        { do: "deleteCheckpoint" as const, checkpoint },
        { do: "deleteLog" as const, digest },
      ];
    });
  return [...overdue, ...beyond];
}

/** The versions that an upgrade has replaced, with the time at which they can be deleted. */
function replacedVersions(state: SnapshotState): Map<number, number> {
  return new Map(
    keptVersions(state).flatMap(({ replaces = [], createdAt }) =>
      replaces.map((version): [number, number] => [version, Date.parse(createdAt) + replacedMilliseconds]),
    ),
  );
}

/** The time for clients that have resolved the name just before, and for a downgrade that is done soon. */
const replacedMilliseconds = 3_600_000;

/**
 * Deletes Checkpoints that no build of the current recipe can use, and those of interrupted builds. Captured steps that can be
 * restored are only marked, as a later recipe may have them again; the collector deletes them when they take too much space.
 */
function unneeded(state: SnapshotState, { digest }: DesiredVersion): SnapshotAction[] {
  const { snapshot, made } = state;
  const needed = new Set([
    ...(snapshot.status?.versions ?? []).map(({ checkpointName }) => checkpointName),
    versionCheckpointName(snapshot.metadata.name, digest.digest),
  ]);
  const steps = new Set(digest.steps);
  return made
    .filter(({ metadata }) => metadata.deletionTimestamp === undefined && !needed.has(metadata.name))
    .flatMap((checkpoint) => ofUnneeded(state, checkpoint, steps.has(stepDigestOf(checkpoint) ?? "")));
}

function ofUnneeded(state: SnapshotState, checkpoint: Checkpoint, isInRecipe: boolean): SnapshotAction[] {
  const isStep = checkpoint.metadata.labels?.[labels.purpose] === "step" && isCloneable(checkpoint);
  if (isStep && isOfEarlierEngine(state, checkpoint)) return [{ do: "deleteCheckpoint", checkpoint }];
  if (!isStep) return hasFailed(checkpoint) || !isInRecipe ? [{ do: "deleteCheckpoint", checkpoint }] : [];
  const isMarked = checkpoint.metadata.annotations?.[annotations.unneededSince] !== undefined;
  if (isMarked !== isInRecipe) return [];
  return [{ do: "markStep", checkpoint, unneededSince: isInRecipe ? undefined : state.now.toISOString() }];
}

/** No later build starts from a step of an earlier engine, unless the snapshot keeps its engine. */
function isOfEarlierEngine({ snapshot, engines }: SnapshotState, { metadata }: Checkpoint): boolean {
  return snapshot.spec.engineUpgrade === "Auto" && engines.source === "current" && engines.earlier.has(metadata.name);
}

function stepDigestOf({ metadata }: Checkpoint): string | undefined {
  return metadata.annotations?.[annotations.stepDigest];
}

export function removeBuilders({ builder, orphans }: Pick<SnapshotState, "builder" | "orphans">): SnapshotAction[] {
  return [...(builder === undefined ? [] : [builder]), ...orphans]
    .filter(({ metadata }) => metadata.deletionTimestamp === undefined)
    .map((sandbox) => ({ do: "deleteSandbox", sandbox }));
}

/** The version and those that it has replaced. */
export function replacedBy({ versions = [] }: NamedSnapshotStatus, version: number): number[] {
  const { replaces = [] } = versions.find((one) => one.version === version) ?? {};
  return [...replaces, version].slice(-mostReplaced);
}

const mostReplaced = 100;
