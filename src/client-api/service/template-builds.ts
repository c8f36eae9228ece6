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
import { tagsAnnotation, tagsOf } from "../../api/snapshot/snapshot-tags.ts";
import { defined } from "../../base/defined.ts";
import { RametError } from "../../base/errors.ts";
import { untilSnapshotKnown } from "./cache-lag.ts";
import type { ServiceParts } from "./parts.ts";
import { settled } from "./template-build-state.ts";

export interface RequestedBuild extends Pick<ClientBuild, "tags" | "cpuCount" | "memoryMB"> {
  namespace: string;
  name: string;
  /** The API key whose limits its versions count for, if this is the first build. */
  owner: string;
  signal: AbortSignal;
}

/**
 * Notes a build that a client is about to start. The named snapshot is created if it does not exist, and builds nothing yet.
 * @returns the build's id
 * @throws RametError `AlreadyExists` if the name belongs to something that clients do not build
 */
export async function requestBuild(parts: ServiceParts, requested: RequestedBuild): Promise<string> {
  const { namespace, name, owner, tags, cpuCount, memoryMB, signal } = requested;
  refuseSet(parts, namespace, name);
  const build: ClientBuild = {
    id: randomUUID(),
    requestedAt: parts.clock.now().toISOString(),
    tags,
    ...defined({ cpuCount, memoryMB }),
  };
  const { resource } = parts.informers.snapshots;
  const existing = await resource.find({ namespace, name }, { signal });
  if (existing === undefined) {
    await resource.create(
      {
        apiVersion: rametApiVersion,
        kind: "NamedSnapshot",
        metadata: { namespace, name, annotations: { ...clientBuildsAnnotation([build]), [annotations.owner]: owner } },
        // The client says later what it is built from.
        spec: { from: { template: { name: "not-started" } }, suspend: true, deletionPolicy: "Delete" },
      },
      { signal },
    );
    return build.id;
  }
  await change(parts, { namespace, name }, signal, (snapshot) => ({
    metadata: { annotations: clientBuildsAnnotation([...clientBuildsOf(snapshot), build]) },
  }));
  return build.id;
}

function refuseSet({ known }: ServiceParts, namespace: string, name: string): void {
  if (known.set(`${namespace}/${name}`) === undefined) return;
  throw new RametError("AlreadyExists", `The name ${name} belongs to a SandboxSet`, { hint: "Choose another name" });
}

export interface StartedBuild {
  namespace: string;
  name: string;
  id: string;
  from: SnapshotSource;
  recipe: readonly RecipeStep[];
  /** For each step of the recipe, the step of the client. */
  origins: string[];
  signal: AbortSignal;
}

/**
 * Starts a build that was requested, in place of one that is still in progress. A repeated start changes nothing.
 * @throws RametError `NotFound`; `Conflict` if the build has ended
 */
export async function startBuild(parts: ServiceParts, started: StartedBuild): Promise<void> {
  const { namespace, name, id, from, recipe, origins, signal } = started;
  const startedAt = parts.clock.now().toISOString();
  await change(parts, { namespace, name }, signal, (current) => {
    const snapshot = settled(current, parts.clock.now());
    const builds = clientBuildsOf(snapshot);
    const build = builds.find((each) => each.id === id);
    if (build === undefined) throw unknownBuild(name, id);
    if (build.outcome !== undefined) throw new RametError("Conflict", `The build ${id} has ended`);
    if (build.startedAt !== undefined) return undefined;
    // The build that started last is the last one.
    const others = builds.filter((each) => each !== build);
    return {
      metadata: {
        annotations: {
          ...tagsAnnotation(tagsOf(snapshot)),
          ...clientBuildsAnnotation([...others, { ...build, origins, startedAt }]),
          [annotations.buildRequest]: id,
        },
      },
      spec: { from: { ...noSource, ...from }, recipe, suspend: null },
    };
  });
}

/** For a merge patch: the spec has exactly one source. */
const noSource = { template: null, snapshot: null, sandbox: null, checkpoint: null };

/**
 * Finds a build. Another replica may have noted it a moment ago, so an unknown one is looked up in the API server.
 * @throws RametError `NotFound`
 */
export async function findBuild(
  { informers, known, clock }: ServiceParts,
  { namespace, name, id, signal }: { namespace: string; name: string; id: string; signal: AbortSignal },
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
  { namespace, name, signal }: { namespace: string; name: string; signal: AbortSignal },
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
  await change(parts, snapshot.metadata, signal, (current) => {
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
  { namespace, name, signal }: { namespace: string; name: string; signal: AbortSignal },
  tags: (snapshot: NamedSnapshot) => Record<string, number>,
): Promise<NamedSnapshot> {
  const snapshot = await parts.informers.snapshots.resource.find({ namespace, name }, { signal });
  if (snapshot === undefined) throw unknownTemplate(name);
  await settle(parts, snapshot, signal);
  return change(parts, { namespace, name, isForeignAllowed: true }, signal, (current) => ({
    metadata: { annotations: tagsAnnotation(tags(current)) },
  }));
}

/**
 * Changes a named snapshot that clients build, and again if somebody else has changed it in between. Ends when the cache has it.
 * @param patch the merge patch; undefined changes nothing
 * @throws RametError `NotFound`; `AlreadyExists` if clients do not build it
 */
async function change(
  parts: ServiceParts,
  { namespace, name, isForeignAllowed = false }: { namespace: string; name: string; isForeignAllowed?: boolean },
  signal: AbortSignal,
  patch: (snapshot: NamedSnapshot) => Patch | undefined,
): Promise<NamedSnapshot> {
  const { resource } = parts.informers.snapshots;
  for (let tries = 1; ; tries++) {
    const snapshot = await resource.get({ namespace, name }, { signal });
    if (!isForeignAllowed && !isBuiltByClients(snapshot)) throw declaredElsewhere(name);
    const { uid, resourceVersion } = snapshot.metadata;
    const changes = patch(snapshot);
    if (changes === undefined) return snapshot;
    const guarded = { ...changes, metadata: { ...changes.metadata, uid, resourceVersion } };
    try {
      const written = await resource.mergePatch({ namespace, name }, guarded, { signal });
      await untilSnapshotKnown(parts, written, signal);
      return written;
    } catch (error) {
      if (RametError.from(error).code !== "Conflict" || tries >= mostTries) throw error;
    }
  }
}

interface Patch {
  metadata: { annotations: Record<string, string> };
  spec?: object;
}

const mostTries = 10;

function declaredElsewhere(name: string): RametError {
  return new RametError("AlreadyExists", `The named snapshot ${name} is not built by clients`, {
    hint: "Choose another name, or change it where it is declared: with Pulumi or kubectl",
  });
}

function unknownTemplate(name: string): RametError {
  return new RametError("NotFound", `The template ${name} does not exist`);
}

function unknownBuild(name: string, id: string): RametError {
  return new RametError("NotFound", `The template ${name} has no build ${id.slice(0, 80)}`);
}
