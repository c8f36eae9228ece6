import * as z from "zod";
import { RametError } from "../../base/errors.ts";
import type { Checkpoint } from "../kinds/checkpoint.ts";
import type { SnapshotVersion } from "../kinds/named-snapshot-status.ts";
import type { NamedSnapshot } from "../kinds/named-snapshot.ts";
import { annotations, jsonAnnotation } from "../names/labels.ts";

/** A reference to a named snapshot or one of its versions: `python`, `python@7`, `python@sha256:…`. */
export interface SnapshotReference {
  name: string;
  /** Without `version` and `digest`: the current version. */
  version?: number;
  digest?: string;
}

/**
 * Parses a reference.
 * @throws RametError `InvalidArgument` for an invalid one
 */
export function parseSnapshotReference(text: string): SnapshotReference {
  const at = text.indexOf("@");
  const name = at < 0 ? text : text.slice(0, at);
  const pin = at < 0 ? undefined : text.slice(at + 1);
  if (!namePattern.test(name)) throw unreadable(text);
  if (pin === undefined) return { name };
  if (digestPattern.test(pin)) return { name, digest: pin };
  if (versionPattern.test(pin) && Number(pin) <= mostVersions) return { name, version: Number(pin) };
  throw unreadable(text);
}

/** The reverse of {@link parseSnapshotReference}. */
export function printSnapshotReference({ name, version, digest }: SnapshotReference): string {
  if (version !== undefined) return `${name}@${version}`;
  return digest === undefined ? name : `${name}@${digest}`;
}

/** Whether the text pins a version. Checkpoint ids never contain `@`. */
export function isPinnedReference(text: string): boolean {
  return text.includes("@");
}

const namePattern = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/;
const digestPattern = /^sha256:[0-9a-f]{64}$/;
const versionPattern = /^[1-9][0-9]*$/;
const mostVersions = 2 ** 31 - 1;

function unreadable(text: string): RametError {
  return new RametError("InvalidArgument", `${JSON.stringify(text)} is not a snapshot reference`, {
    hint: "Write a name, a name and a version, or a name and a digest: python, python@7, python@sha256:<64 hex digits>",
  });
}

/**
 * The version to which a reference resolves now.
 * @throws RametError `CheckpointNotReady` (retryable) without any version, `NotFound` for a version that is not kept
 */
export function findVersion(snapshot: NamedSnapshot, reference: SnapshotReference): SnapshotVersion {
  const { status } = snapshot;
  const kept = status?.versions ?? [];
  const { version, digest } = reference;
  const isPinned = version !== undefined || digest !== undefined;
  const current = kept.find((one) => one.version === status?.version);
  const found = isPinned ? pinned(kept, { version, digest, current }) : current;
  if (found !== undefined) return found;
  const name = printSnapshotReference(reference);
  if (!isPinned) {
    throw new RametError("CheckpointNotReady", `The named snapshot ${name} has no version yet`, {
      retryable: true,
      hint: `See why with: ramet snapshot get ${name} -n ${snapshot.metadata.namespace}`,
    });
  }
  const numbers = kept.map((one) => one.version).join(", ") || "none";
  throw new RametError("NotFound", `The named snapshot ${reference.name} has no version ${name}, or it was deleted`, {
    hint: `Kept versions: ${numbers}`,
  });
}

interface Pin {
  version: number | undefined;
  digest: string | undefined;
  current: SnapshotVersion | undefined;
}

/** Versions with the same digest differ in their engine. A version that an upgrade has replaced still has its number. */
function pinned(kept: readonly SnapshotVersion[], { version, digest, current }: Pin): SnapshotVersion | undefined {
  if (digest !== undefined) return current?.digest === digest ? current : kept.findLast((one) => one.digest === digest);
  return (
    kept.find((one) => one.version === version) ??
    kept.findLast(({ replaces = [] }) => version !== undefined && replaces.includes(version))
  );
}

/** A tag of a version, as in `python:stable`: a name that can move to another version. */
export const tagPattern = /^[a-z0-9_.-]{1,128}$/;

/** The tag that always names the current version. */
export const defaultTag = "default";

const Tags = z.record(z.string().regex(tagPattern), z.int().min(1));

/** The versions of a named snapshot by their tags. An annotation that nobody can read names none. */
export function tagsOf(snapshot: Pick<NamedSnapshot, "metadata">): Readonly<Record<string, number>> {
  return jsonAnnotation(snapshot, annotations.tags, Tags) ?? {};
}

export function tagsAnnotation(tags: Readonly<Record<string, number>>): Record<string, string> {
  return { [annotations.tags]: JSON.stringify(tags) };
}

/** The checkpoints and named snapshots that a process knows. */
export interface KnownOrigins {
  checkpointById(namespace: string, checkpointId: string): Checkpoint | undefined;
  /** @param key `namespace/name` */
  snapshot(key: string): NamedSnapshot | undefined;
}

/**
 * Resolves a reference, such as that of a set's template, to a checkpoint id. A reference is a checkpoint id, or a named
 * snapshot of the namespace with or without a version. The resolved id is part of each sandbox and of the revision, so a
 * snapshot that moves makes another revision, to which the set rolls.
 *
 * An id that does not exist is not an error here: the first sandbox reports it, and the set passes that on.
 * @throws RametError `CheckpointNotReady` if the named snapshot has no version yet, `NotFound` if the version is not kept
 */
export function resolveOrigin(namespace: string, reference: string, known: KnownOrigins): string {
  return namedVersion(namespace, reference, known)?.version.checkpointId ?? reference;
}

/**
 * The checkpoint ids of other kept versions with the content of this reference: captures of the same digest with another engine.
 * @throws RametError like {@link resolveOrigin}
 */
export function otherCaptures(namespace: string, reference: string, known: KnownOrigins): string[] {
  const named = namedVersion(namespace, reference, known);
  if (named === undefined) return [];
  const { snapshot, version } = named;
  return (snapshot.status?.versions ?? [])
    .filter(({ digest, checkpointId }) => digest === version.digest && checkpointId !== version.checkpointId)
    .map(({ checkpointId }) => checkpointId);
}

/** Undefined: the reference is a checkpoint id. */
function namedVersion(
  namespace: string,
  reference: string,
  known: KnownOrigins,
): { snapshot: NamedSnapshot; version: SnapshotVersion } | undefined {
  const [name = ""] = reference.split("@");
  const snapshot = known.snapshot(`${namespace}/${name}`);
  if (snapshot === undefined || known.checkpointById(namespace, reference) !== undefined) return undefined;
  const parsed = isPinnedReference(reference) ? parseSnapshotReference(reference) : { name };
  return { snapshot, version: findVersion(snapshot, parsed) };
}
