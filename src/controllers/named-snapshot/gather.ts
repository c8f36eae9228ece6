import { isCloneable } from "../../api/state/checkpoint.ts";
import { hasEnded } from "../../api/state/sandbox.ts";
import { type Checkpoint, hasLayer } from "../../api/kinds/checkpoint.ts";
import type { SnapshotVersion, NamedSnapshotStatus } from "../../api/kinds/named-snapshot-status.ts";
import type { NamedSnapshot } from "../../api/kinds/named-snapshot.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { annotations, labels } from "../../api/names/labels.ts";
import type { SnapshotDigest } from "../../api/snapshot/snapshot-digest.ts";
import { tagsOf } from "../../api/snapshot/snapshot-reference.ts";
import { claimsOfSandbox, volumesOf } from "../volumes/restored-volumes.ts";
import { resolveTemplate } from "../origin/resolve-template.ts";
import { secretsOfCheckpoint, secretsOfSandbox } from "../origin/secrets-in-memory.ts";
import { copiedContents } from "./keyed-content.ts";
import type { Lookups } from "./lookups.ts";
import {
  attemptId,
  builderName,
  digestLabel,
  sourceCheckpointName,
  stepCheckpointName,
  versionCheckpointName,
} from "./names.ts";
import { resolveInputs } from "./resolve-inputs.ts";
import type { SnapshotDependencies, SnapshotState, EngineFacts } from "./state.ts";
import type { NeededEngine } from "../../api/engine/engine.ts";
import { partsOf } from "../../backends/checkpoint-record.ts";
import { findCondition } from "../../kube/conditions.ts";
import { neededEngine } from "../images/engines.ts";

/** Reads the state for a plan: objects from the caches, ConfigMaps and Secrets from the API server. */
export async function gather(snapshot: NamedSnapshot, dependencies: SnapshotDependencies): Promise<SnapshotState> {
  const { lookups, clock } = dependencies;
  const { name, namespace, uid } = snapshot.metadata;
  const desired = await desiredVersionOf(snapshot, dependencies);
  const digest = "problem" in desired ? undefined : desired.digest;
  const checkpoint = (at: string): Checkpoint | undefined => dependencies.cache.checkpoint(`${namespace}/${at}`);
  const { build } = snapshot.status ?? {};
  const builders = lookups.buildersOf(uid);
  const builder = build && builders.find(({ metadata }) => metadata.name === builderName(name, build));
  const cloneable = await cloneableVersions(snapshot, dependencies);
  const made = lookups
    .checkpointsOfSnapshot(`${namespace}/${name}`)
    .filter(({ metadata }) => metadata.labels?.[labels.snapshotUid] === uid);
  return {
    snapshot,
    desired,
    cloneable,
    versionCheckpoint: digest && checkpoint(versionCheckpointName(name, digest.digest)),
    captured: digest === undefined ? new Map() : capturedSteps(snapshot, digest, dependencies),
    stepCheckpoint: lastStepCheckpoint(snapshot, builder, checkpoint),
    sourceCheckpoint: digest && checkpoint(sourceCheckpointName(name, digest.base)),
    builder,
    orphans: builders.filter((one) => one !== builder),
    made,
    engines: engineFacts(snapshot, { desired, checkpoints: [...cloneable.values(), ...made] }, dependencies),
    ignored: ignoredOf(snapshot, desired, dependencies),
    ...nextAttempt(snapshot, builder, dependencies),
    referrers: referrersOf(snapshot, lookups),
    followers: followersOf(snapshot, lookups),
    now: clock.now(),
  };
}

function ignoredOf(
  { spec }: NamedSnapshot,
  desired: SnapshotState["desired"],
  { cloning }: SnapshotDependencies,
): SnapshotState["ignored"] {
  if ("problem" in desired || desired.origin.kind !== "template") return [];
  return cloning.ignoredIn(spec.from.template?.name ?? "", desired.origin.spec);
}

async function desiredVersionOf(
  snapshot: NamedSnapshot,
  dependencies: SnapshotDependencies,
): Promise<SnapshotState["desired"]> {
  const { cache, lookups, cloning } = dependencies;
  const { namespace } = snapshot.metadata;
  const refusal = cloning.refusal(snapshot);
  if (refusal !== undefined) return { problem: refusal, reason: "InputMissing" };
  const desired = resolveInputs(snapshot, {
    template: (name) => cache.template(`${namespace}/${name}`),
    snapshot: (name) => lookups.snapshot(`${namespace}/${name}`),
    sandbox: (name) => cache.sandbox(`${namespace}/${name}`),
    checkpoint: (id) => {
      const found = cache.checkpointById(namespace, id);
      return isCloneable(found) ? found : undefined;
    },
    secretsOfSandbox: (sandbox) => secretsOfSandbox(sandbox, cache),
    secretsOfCheckpoint: (checkpoint) => secretsOfCheckpoint(checkpoint, cache),
    volumesOfSandbox: (sandbox) => volumesOfSandbox(sandbox, dependencies),
    volumesOfCheckpoint: (id) => volumesOf(cache.checkpointById(namespace, id)).missing.map(({ volume }) => volume),
    hasLayers: cloning.hasLayers,
    copied: await copiedContents(dependencies.client, snapshot),
  });
  if ("problem" in desired || desired.origin.kind !== "checkpoint") return desired;
  const origin = cache.checkpointById(namespace, desired.origin.checkpointId);
  const problem = origin && cloning.problemOf(origin);
  return problem === undefined ? desired : { problem, reason: "InputMissing" };
}

/** A restored sandbox without a Pod and a template has those of its checkpoint. */
function volumesOfSandbox(sandbox: Sandbox, { cache }: SnapshotDependencies): string[] {
  const { namespace, name } = sandbox.metadata;
  const id = sandbox.status?.ramet?.restoredFrom;
  const template = resolveTemplate(sandbox, cache, id === undefined ? undefined : cache.checkpointById(namespace, id));
  return claimsOfSandbox(sandbox, template, cache.pod(`${namespace}/${name}`)).map(({ volume }) => volume);
}

/**
 * The Checkpoints of versions that can be cloned. A version without one is built again, so a Checkpoint that the cache does not
 * show is looked up in the API server.
 */
async function cloneableVersions(
  { metadata, status }: NamedSnapshot,
  { cache, informers }: SnapshotDependencies,
): Promise<Map<string, Checkpoint>> {
  const found = await Promise.all(
    (status?.versions ?? []).map(async ({ checkpointName, checkpointId }): Promise<[string, Checkpoint][]> => {
      const at = { namespace: metadata.namespace, name: checkpointName };
      const cached = cache.checkpoint(`${at.namespace}/${at.name}`);
      const checkpoint = isCloneable(cached) ? cached : await informers.checkpoints.resource.find(at);
      if (checkpoint?.status?.checkpointId !== checkpointId || !isCloneable(checkpoint)) return [];
      return [[checkpointName, checkpoint]];
    }),
  );
  return new Map(found.flat());
}

/**
 * The label holds a part of the digest; the annotation holds the whole digest. A step of an earlier engine would make a version
 * of that engine, so it is used only if the version keeps it anyway.
 */
function capturedSteps(
  { metadata: { namespace }, spec, status }: NamedSnapshot,
  { steps, layers }: SnapshotDigest,
  { lookups, engines, cloning }: SnapshotDependencies,
): Map<string, Checkpoint> {
  const keepsEngine = spec.engineUpgrade === "Manual" && status?.build?.upgrade === undefined;
  return new Map(
    steps.flatMap((digest): [string, Checkpoint][] => {
      const all = lookups
        .checkpointsOfStep(namespace, digestLabel(digest))
        .filter((one) => isCloneable(one) && cloning.problemOf(one) === undefined)
        .filter((one) => cloning.hasMemory(one) || (layers && hasLayer(one.status?.ramet?.parts)))
        .filter(({ metadata }) => metadata.annotations?.[annotations.stepDigest] === digest);
      const found =
        all.find((one) => !engines.isEarlier(neededBy(one))) ??
        all.find((one) => keepsEngine && engines.stateOf(neededBy(one)) !== "missing");
      return found === undefined ? [] : [[digest, found]];
    }),
  );
}

function lastStepCheckpoint(
  { metadata, status }: NamedSnapshot,
  builder: Sandbox | undefined,
  checkpoint: (name: string) => Checkpoint | undefined,
): Checkpoint | undefined {
  const last = status?.steps?.findLast(({ state }) => state === "Succeeded");
  return last && checkpoint(stepCheckpointName(metadata.name, last.digest, builder?.status?.ramet?.engine));
}

function nextAttempt(
  { status, metadata }: NamedSnapshot,
  builder: Sandbox | undefined,
  { steps, fetches }: SnapshotDependencies,
): Pick<SnapshotState, "attempt" | "fetchWait"> {
  const index = status?.steps?.findIndex(({ state }) => state !== "Succeeded") ?? -1;
  if (builder === undefined || index < 0) return { attempt: undefined, fetchWait: undefined };
  const id = attemptId(builder.metadata.uid, index);
  return { attempt: steps.get(id), fetchWait: fetches.whyWaiting(metadata.namespace, id) };
}

/** By version: the objects and tags that refer to it, which keep it from being deleted. */
function referrersOf({ metadata, status }: NamedSnapshot, lookups: Lookups): Map<number, string[]> {
  // A tag of a version that an upgrade has replaced refers to the new one.
  const replaced = new Set((status?.versions ?? []).flatMap(({ replaces = [] }) => replaces));
  const tags = Object.entries(tagsOf({ metadata })).filter(([, version]) => !replaced.has(version));
  const tagged = (version: number): string[] =>
    tags.filter(([, each]) => each === version).map(([tag]) => `tag ${tag}`);
  return new Map(
    (status?.versions ?? []).map((version) => [
      version.version,
      [...ofVersion(metadata, version, lookups), ...tagged(version.version)],
    ]),
  );
}

function ofVersion(
  { name, namespace }: { name: string; namespace: string },
  { version, digest, checkpointId }: SnapshotVersion,
  lookups: Lookups,
): string[] {
  const texts = [`${name}@${version}`, `${name}@${digest}`, checkpointId];
  const sandboxes = texts
    .flatMap((text) => lookups.sandboxesFrom(namespace, text))
    .filter((sandbox) => !hasEnded(sandbox));
  const sets = texts.flatMap((text) => lookups.setsFrom(namespace, text));
  const children = lookups
    .snapshotsFrom(namespace, `snapshot/${name}`)
    .filter(({ spec: { from } }) => from.snapshot?.version === version || from.snapshot?.digest === digest);
  return names({ Sandbox: sandboxes, SandboxSet: sets, NamedSnapshot: children });
}

/** The objects that name the snapshot at any version and need it. A running clone no longer needs it. */
function followersOf({ metadata: { name, namespace } }: NamedSnapshot, lookups: Lookups): string[] {
  return names({
    NamedSnapshot: lookups
      .snapshotsFrom(namespace, `snapshot/${name}`)
      .filter(({ metadata }) => metadata.name !== name),
    SandboxSet: lookups.setsNaming(namespace, name),
  });
}

function names(byKind: Record<string, { metadata: { name: string } }[]>): string[] {
  const all = Object.entries(byKind).flatMap(([kind, objects]) =>
    objects.map(({ metadata }) => `${kind} ${metadata.name}`),
  );
  return [...new Set(all)];
}

type Known = Pick<SnapshotDependencies, "engines" | "cache" | "lookups">;

/** @param checkpoints those of the versions and of the steps */
function engineFacts(
  snapshot: NamedSnapshot,
  { desired, checkpoints }: { desired: SnapshotState["desired"]; checkpoints: readonly Checkpoint[] },
  known: Known,
): EngineFacts {
  const { engines } = known;
  const earlier = checkpoints.filter((one) => engines.isEarlier(neededBy(one)));
  return {
    cellImage: engines.cellImage,
    earlier: new Set(earlier.map(({ metadata }) => metadata.name)),
    source: "problem" in desired ? "current" : sourceOf(snapshot, desired, known),
  };
}

function sourceOf(
  { metadata: { namespace }, spec: { from } }: NamedSnapshot,
  { origin }: Exclude<SnapshotState["desired"], { problem: unknown }>,
  { engines, cache, lookups }: Known,
): EngineFacts["source"] {
  if (origin.kind === "template") return "current";
  // The captured moment of the sandbox has gone.
  if (origin.kind === "sandbox") return "bound";
  const checkpoint = cache.checkpointById(namespace, origin.checkpointId);
  if (checkpoint === undefined || !engines.isEarlier(neededBy(checkpoint))) return "current";
  const parent = from.snapshot && lookups.snapshot(`${namespace}/${from.snapshot.name}`);
  return parent?.status !== undefined && isUpgraded(parent.status, origin.checkpointId) ? "waiting" : "bound";
}

function isUpgraded({ checkpointId, conditions }: NamedSnapshotStatus, source: string): boolean {
  return checkpointId === source && upgrades.has(findCondition(conditions, "EngineCurrent")?.reason ?? "");
}

/** The reasons of a parent that is going to have the current engine. */
const upgrades: ReadonlySet<string> = new Set(["Upgrading", "UpgradeWaiting", "SourceUpgrading"]);

function neededBy({ status }: Checkpoint): NeededEngine {
  return neededEngine(partsOf(status?.ramet) ?? []);
}
