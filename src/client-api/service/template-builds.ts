import { randomUUID } from "node:crypto";
import type { NamedSnapshot, SnapshotSource } from "../../api/kinds/named-snapshot.ts";
import { annotations } from "../../api/names/labels.ts";
import type { RecipeStep } from "../../api/recipe/recipe.ts";
import { rametApiVersion } from "../../api/schema/kind.ts";
import {
  type ClientBuild,
  clientBuildsAnnotation,
  clientBuildsOf,
  isBuiltByClients,
} from "../../api/snapshot/client-builds.ts";
import { tagsAnnotation, tagsOf } from "../../api/snapshot/snapshot-reference.ts";
import { defined } from "../../base/defined.ts";
import { RametError } from "../../base/errors.ts";
import { retryConflicts } from "../../kube/apply.ts";
import type { Change } from "../../operations/objects.ts";
import { untilSnapshotKnown } from "./cache-lag.ts";
import type { ServiceParts } from "./parts.ts";
import { settled } from "./template-build-state.ts";

/** The named snapshot of a request. */
interface Named {
  namespace: string;
  name: string;
  signal: AbortSignal;
}

export interface RequestedBuild extends Named, Pick<ClientBuild, "tags" | "cpuCount" | "memoryMB"> {
  /** The API key whose limits its versions count for, if this is the first build. */
  owner: string;
}

/**
 * Notes a build that a client is about to start. The named snapshot is created if it does not exist, and builds nothing yet.
 * @returns the build's id
 * @throws RametError `AlreadyExists` if the name belongs to something that clients do not build
 */
export async function requestBuild(parts: ServiceParts, requested: RequestedBuild): Promise<string> {
  const { namespace, name, owner, tags, cpuCount, memoryMB, signal } = requested;
  if (parts.known.set(`${namespace}/${name}`) !== undefined)
    throw new RametError("AlreadyExists", `The name ${name} belongs to a SandboxSet`, { hint: "Choose another name" });
  const build: ClientBuild = {
    id: randomUUID(),
    requestedAt: parts.clock.now().toISOString(),
    tags,
    ...defined({ cpuCount, memoryMB }),
  };
  const { resource } = parts.informers.snapshots;
  const existing = await resource.find({ namespace, name }, { signal });
  if (existing === undefined) {
    const noted = { ...clientBuildsAnnotation([build]), [annotations.owner]: owner };
    const metadata = { namespace, name, annotations: noted };
    // The client says later what it is built from.
    const spec = { from: { template: { name: "not-started" } }, suspend: true, deletionPolicy: "Delete" };
    await resource.create({ apiVersion: rametApiVersion, kind: "NamedSnapshot", metadata, spec }, { signal });
    return build.id;
  }
  await change(parts, { namespace, name, signal }, (snapshot) => ({
    metadata: { annotations: clientBuildsAnnotation([...clientBuildsOf(snapshot), build]) },
  }));
  return build.id;
}

export interface StartedBuild extends Named {
  id: string;
  from: SnapshotSource;
  /** The login of the image's registry, sealed for the controllers. */
  registryLogin?: string | undefined;
  recipe: readonly RecipeStep[];
  /** For each step of the recipe, the step of the client. */
  origins: string[];
}

/**
 * Starts a build that was requested, in place of one that is still in progress. A repeated start changes nothing.
 * @throws RametError `NotFound`; `Conflict` if the build has ended
 */
export async function startBuild(parts: ServiceParts, started: StartedBuild): Promise<void> {
  const { namespace, name, id, from, registryLogin, recipe, origins, signal } = started;
  const startedAt = parts.clock.now().toISOString();
  let hasEnded = false as boolean;
  await change(parts, { namespace, name, signal }, (current) => {
    const snapshot = settled(current, parts.clock.now());
    const builds = clientBuildsOf(snapshot);
    const build = builds.find((each) => each.id === id);
    if (build === undefined) throw unknownBuild(name, id);
    hasEnded = build.outcome !== undefined;
    if (hasEnded || build.startedAt !== undefined) return undefined;
    // The build that started last is the last one.
    const others = builds.filter((each) => each !== build);
    return {
      metadata: {
        annotations: {
          ...tagsAnnotation(tagsOf(snapshot)),
          ...clientBuildsAnnotation([...others, { ...build, origins, startedAt }]),
          [annotations.buildRequest]: id,
          ...defined({ [annotations.registryLogin]: registryLogin }),
        },
      },
      spec: { from: { ...noSource, ...from }, recipe, suspend: null },
    };
  });
  if (hasEnded) throw new RametError("Conflict", `The build ${id} has ended`);
}

/** For a merge patch: the spec has exactly one source. */
const noSource = { template: null, snapshot: null, sandbox: null, checkpoint: null };

/**
 * Finds a build. Another replica may have noted it a moment ago, so an unknown one is looked up in the API server.
 * @throws RametError `NotFound`
 */
export async function findBuild(
  { informers, known, clock }: ServiceParts,
  { namespace, name, id, signal }: Named & { id: string },
): Promise<{ snapshot: NamedSnapshot; build: ClientBuild }> {
  const cached = known.snapshot(`${namespace}/${name}`);
  const inCache = cached && buildIn(cached, id, clock.now());
  if (inCache !== undefined) return inCache;
  const snapshot = await informers.snapshots.resource.find({ namespace, name }, { signal });
  const found = snapshot && buildIn(snapshot, id, clock.now());
  if (found === undefined) throw unknownBuild(name, id);
  return found;
}

/** @throws RametError `NotFound` if no template of the namespace has the name */
export async function readTemplate(
  { informers, known }: ServiceParts,
  { namespace, name, signal }: Named,
): Promise<NamedSnapshot> {
  const snapshot =
    known.snapshot(`${namespace}/${name}`) ??
    (await informers.snapshots.resource.find({ namespace, name }, { signal }));
  if (snapshot !== undefined) return snapshot;
  throw unknownTemplate(name);
}

function buildIn(
  snapshot: NamedSnapshot,
  id: string,
  now: Date,
): { snapshot: NamedSnapshot; build: ClientBuild } | undefined {
  const build = clientBuildsOf(settled(snapshot, now)).find((each) => each.id === id);
  return build && { snapshot, build };
}

/** Writes the outcome of a build that has ended, and the tags of its version, which the next request may use. */
export async function settle(parts: ServiceParts, snapshot: NamedSnapshot, signal: AbortSignal): Promise<void> {
  const now = parts.clock.now();
  if (settled(snapshot, now) === snapshot) return;
  await change(parts, { ...snapshot.metadata, signal }, (current) => {
    const after = settled(current, now);
    if (after === current) return undefined;
    return {
      metadata: {
        annotations: { ...tagsAnnotation(tagsOf(after)), ...clientBuildsAnnotation(clientBuildsOf(after)) },
      },
    };
  });
}

/**
 * Changes the tags of a named snapshot, of any author.
 * @param tags from the newest version of the named snapshot to its new tags
 * @throws RametError `NotFound`; what `tags` throws
 */
export async function changeTags(
  parts: ServiceParts,
  { namespace, name, signal }: Named,
  tags: (snapshot: NamedSnapshot) => Record<string, number>,
): Promise<NamedSnapshot> {
  const snapshot = await parts.informers.snapshots.resource.find({ namespace, name }, { signal });
  if (snapshot === undefined) throw unknownTemplate(name);
  await settle(parts, snapshot, signal);
  return change(parts, { namespace, name, signal, isForeignAllowed: true }, (current) => ({
    metadata: { annotations: tagsAnnotation(tags(current)) },
  }));
}

/**
 * Changes a named snapshot that clients build, and again if somebody else has changed it in between. Ends when the cache has it.
 * @param patch returns undefined to change nothing
 * @throws RametError `NotFound`; `AlreadyExists` if clients do not build it
 */
function change(
  parts: ServiceParts,
  { namespace, name, signal, isForeignAllowed = false }: Named & { isForeignAllowed?: boolean },
  patch: (snapshot: NamedSnapshot) => Change | undefined,
): Promise<NamedSnapshot> {
  return retryConflicts(async () => {
    const snapshot = await parts.informers.snapshots.resource.get({ namespace, name }, { signal });
    if (!isForeignAllowed && !isBuiltByClients(snapshot)) {
      throw new RametError("AlreadyExists", `The named snapshot ${name} is not built by clients`, {
        hint: "Choose another name, or change it where it is declared: with Pulumi or kubectl",
      });
    }
    const changes = patch(snapshot);
    if (changes === undefined) return snapshot;
    const { resourceVersion } = snapshot.metadata;
    const guarded = { ...changes, metadata: { ...changes.metadata, resourceVersion } };
    const written = await parts.objects.snapshots.patch(snapshot, guarded, signal);
    await untilSnapshotKnown(parts, written, signal);
    return written;
  });
}

function unknownTemplate(name: string): RametError {
  return new RametError("NotFound", `The template ${name} does not exist`);
}

function unknownBuild(name: string, id: string): RametError {
  return new RametError("NotFound", `The template ${name} has no build ${id.slice(0, 80)}`);
}
