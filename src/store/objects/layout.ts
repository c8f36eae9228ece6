import { randomBytes } from "node:crypto";
import * as z from "zod";
import { CheckpointId, NamespaceName, type CheckpointRef } from "../checkpoint-id.ts";
import { ownerFile } from "../owner.ts";

/** The maximum number of files of a checkpoint. gVisor writes three files with memory and one without. */
export const maximumFiles = 8;

const publicationName = "manifest.json";

/** The key of the object that publishes a checkpoint. */
export function publicationKey(ref: CheckpointRef): string {
  return `${checkpointPrefix(ref)}${publicationName}`;
}

/** The key of the n-th file of an attempt, sorted by file name. */
export function fileKey(ref: CheckpointRef, attempt: string, index: number): string {
  return `${checkpointPrefix(ref)}${attempt}/${index}`;
}

export function checkpointPrefix({ namespace, checkpointId }: CheckpointRef): string {
  return `${namespacePrefix(namespace)}${checkpointId}/`;
}

export function namespacePrefix(namespace: string): string {
  return `${namespace}/`;
}

/** A new key for the test write of a probe. */
export function newProbeKey(): string {
  return `probe.${random()}`;
}

/** A new name for an attempt. It contains the expiry of the grant, because a sweep must not remove it before then. */
export function newAttempt(expiresAt: number): string {
  return `${expiresAt}-${random()}`;
}

/** The expiry of an attempt's grant in milliseconds since 1970. `undefined`: the name is not that of an attempt. */
export function attemptExpiry(attempt: string): number | undefined {
  const match = /^(\d{13})-[0-9a-f]{16}$/.exec(attempt);
  return match === null ? undefined : Number(match[1]);
}

/** The kind of an object, from its key. */
export type KeyKind =
  | { kind: "owner" }
  | { kind: "probe" }
  | { kind: "publication"; ref: CheckpointRef }
  | { kind: "file"; ref: CheckpointRef; attempt: string };

/** Returns `undefined` for a key that the driver does not create. */
export function kindOf(key: string): KeyKind | undefined {
  if (key === ownerFile) return { kind: "owner" };
  if (/^probe\.[0-9a-f]{16}$/.test(key)) return { kind: "probe" };
  const [namespace, checkpointId, ...parts] = key.split("/");
  const ref = Ref.safeParse({ namespace, checkpointId }).data;
  if (ref === undefined) return undefined;
  const [part = "", index = "", beyond] = parts;
  if (parts.length === 1) return part === publicationName ? { kind: "publication", ref } : undefined;
  const isFile = beyond === undefined && /^\d$/.test(index) && attemptExpiry(part) !== undefined;
  return isFile ? { kind: "file", ref, attempt: part } : undefined;
}

const Ref = z.object({ namespace: NamespaceName, checkpointId: CheckpointId });

/** Returns whether a signed URL is for the publication of this checkpoint, in any bucket. */
export function isPublicationUrl(url: string, ref: CheckpointRef): boolean {
  return decodeURIComponent(new URL(url).pathname).endsWith(`/${publicationKey(ref)}`);
}

function random(): string {
  return randomBytes(8).toString("hex");
}
