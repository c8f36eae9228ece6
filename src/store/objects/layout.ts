import { randomBytes } from "node:crypto";
import * as z from "zod";
import { CheckpointId, NamespaceName, type CheckpointRef } from "../checkpoint-id.ts";
import { ownerFile } from "../owner.ts";

/** How many files a checkpoint may have: gVisor makes three of memory, and one of files alone. */
export const mostFiles = 8;

const publicationName = "manifest.json";

/** The object that makes a checkpoint one. */
export function publicationKey(ref: CheckpointRef): string {
  return `${checkpointPrefix(ref)}${publicationName}`;
}

/** The n-th file of one attempt to write a checkpoint, by the order of their names. */
export function fileKey(ref: CheckpointRef, attempt: string, index: number): string {
  return `${checkpointPrefix(ref)}${attempt}/${index}`;
}

export function checkpointPrefix({ namespace, checkpointId }: CheckpointRef): string {
  return `${namespacePrefix(namespace)}${checkpointId}/`;
}

export function namespacePrefix(namespace: string): string {
  return `${namespace}/`;
}

/** Where a probe writes what it removes again. */
export function newProbeKey(): string {
  return `probe.${random()}`;
}

/** A new attempt. Its name says when its grant ends: until then it may be published, and nobody sweeps it. */
export function newAttempt(expiresAt: number): string {
  return `${expiresAt}-${random()}`;
}

/** When the grant of an attempt ends, in milliseconds since 1970; `undefined`: that is no attempt's name. */
export function attemptExpiry(attempt: string): number | undefined {
  const match = /^(\d{13})-[0-9a-f]{16}$/.exec(attempt);
  return match === null ? undefined : Number(match[1]);
}

/** What an object is, by its key. */
export type KeyKind =
  | { kind: "owner" }
  | { kind: "probe" }
  | { kind: "publication"; ref: CheckpointRef }
  | { kind: "file"; ref: CheckpointRef; attempt: string };

/** `undefined` for a key that the driver never makes. */
export function kindOf(key: string): KeyKind | undefined {
  if (key === ownerFile) return { kind: "owner" };
  if (/^probe\.[0-9a-f]{16}$/.test(key)) return { kind: "probe" };
  const [namespace, checkpointId, ...rest] = key.split("/");
  const ref = Ref.safeParse({ namespace, checkpointId }).data;
  if (ref === undefined) return undefined;
  const [part = "", index = "", beyond] = rest;
  if (rest.length === 1) return part === publicationName ? { kind: "publication", ref } : undefined;
  const isFile = beyond === undefined && /^\d$/.test(index) && attemptExpiry(part) !== undefined;
  return isFile ? { kind: "file", ref, attempt: part } : undefined;
}

const Ref = z.object({ namespace: NamespaceName, checkpointId: CheckpointId });

/** Whether a signed URL is that of the publication of this checkpoint, wherever its bucket is. */
export function isPublicationUrl(url: string, ref: CheckpointRef): boolean {
  return decodeURIComponent(new URL(url).pathname).endsWith(`/${publicationKey(ref)}`);
}

function random(): string {
  return randomBytes(8).toString("hex");
}
