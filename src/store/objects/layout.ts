import { randomBytes } from "node:crypto";
import * as z from "zod";
import type { Grant } from "../../api/wire/grant.ts";
import { canonicalJson } from "../../base/canonical-json.ts";
import { RametError } from "../../base/errors.ts";
import { CheckpointId, type CheckpointRef, NamespaceName } from "../checkpoint-id.ts";
import { ownerFile } from "../checkpoint-store.ts";
import {
  type Manifest,
  type ManifestFile,
  decodeManifest,
  digestOf,
  lost,
  parseManifest,
  sizeOf,
  versionedJson,
} from "../manifest.ts";
import type { PublishedCheckpoint } from "../sessions.ts";
import { type Bucket, readWhole } from "./bucket.ts";
import { type CallContext, callSigned } from "./signed-http.ts";

/**
 * The maximum number of objects with the files of a checkpoint. gVisor writes three files with memory and one without. A larger file than
 * one request can upload has several. A signature can be a call of the cloud.
 */
export function maximumObjects({ largestObjectBytes }: Pick<Bucket, "largestObjectBytes">): number {
  return largestObjectBytes < 2 ** 40 ? 20 : 8;
}

/** The parts of a file that an object has each, in order. An empty file has one too. */
export function objectsOf({ sizeBytes, objectBytes = Infinity }: Pick<ManifestFile, "sizeBytes" | "objectBytes">) {
  const count = Math.max(1, Math.ceil(sizeBytes / objectBytes));
  return Array.from({ length: count }, (_, index) => {
    const startBytes = index === 0 ? 0 : index * objectBytes;
    return { startBytes, sizeBytes: Math.min(objectBytes, sizeBytes - startBytes) };
  });
}

/** The numbers of the objects of each file. */
export function numbersOf(files: readonly ManifestFile[]): number[][] {
  let next = 0;
  return files.map((file) => objectsOf(file).map(() => next++));
}

/** The keys of the objects of each file. */
export function keysOf(ref: CheckpointRef, attempt: string, files: readonly ManifestFile[]): string[][] {
  return numbersOf(files).map((numbers) => numbers.map((number) => fileKey(ref, attempt, number)));
}

const publicationName = "manifest.json";

/** The key of the object that publishes a checkpoint. */
export function publicationKey(ref: CheckpointRef): string {
  return `${checkpointPrefix(ref)}${publicationName}`;
}

/** The key of the n-th object of an attempt, in the order of the names of files. */
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
type KeyKind =
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
  const isFile = beyond === undefined && /^(\d|1\d)$/.test(index) && attemptExpiry(part) !== undefined;
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

/** The content of a publication: the manifest and the name of the attempt that has the files. */
interface PublicationObject {
  attempt: string;
  /** The canonical bytes, whose digest does not depend on the attempt. */
  manifestBytes: Buffer;
}

const version = 1;

const Stored = z.object({
  v: z.literal(version),
  attempt: z.string().refine((name) => attemptExpiry(name) !== undefined, "is not the name of an attempt"),
  manifest: z.record(z.string(), z.unknown()),
});

export function encodePublication(attempt: string, manifest: Manifest): Buffer {
  return Buffer.from(canonicalJson({ v: version, attempt, manifest }), "utf8");
}

/** Decodes a publication without validating its manifest. @throws RametError `CheckpointLost`, `CheckpointTooNew` */
export function decodePublication(bytes: Buffer, ref: CheckpointRef): PublicationObject {
  const value = versionedJson(bytes, ref, { what: "publication", known: version });
  const stored = Stored.safeParse(value);
  if (!stored.success) throw lost(ref, `its publication is not valid: ${stored.error.issues[0]?.message ?? "unknown"}`);
  const { attempt, manifest } = stored.data;
  return { attempt, manifestBytes: Buffer.from(canonicalJson(manifest), "utf8") };
}

/** Returns the digest and the size of a published checkpoint. @throws RametError `CheckpointLost`, `CheckpointTooNew` */
export function publishedCheckpoint({ manifestBytes }: PublicationObject, ref: CheckpointRef): PublishedCheckpoint {
  return { manifestDigest: digestOf(manifestBytes), sizeBytes: sizeOf(parseManifest(manifestBytes, ref)) };
}

/** Reads the publication of an id with the credentials of the controller. `undefined`: there is none. */
export async function findPublication(bucket: Bucket, ref: CheckpointRef): Promise<PublicationObject | undefined> {
  const bytes = await readWhole(bucket, publicationKey(ref));
  return bytes && decodePublication(bytes, ref);
}

/** Reads the manifest with this digest. @throws RametError `CheckpointLost`, `CheckpointTooNew` */
export async function publishedManifest(bucket: Bucket, ref: CheckpointRef, digest: string): Promise<Manifest> {
  const publication = await findPublication(bucket, ref);
  if (publication === undefined) throw lost(ref, "it is not in the store");
  return decodeManifest(publication.manifestBytes, ref, digest);
}

/** Returns whether the error means that a publication or manifest is invalid, not that the store is unavailable. */
export function isUnreadable(error: unknown): error is RametError {
  return error instanceof RametError && (error.code === "CheckpointLost" || error.code === "CheckpointTooNew");
}

/** More than the size of a manifest with the maximum number of files. */
const maximumBytes = 4 << 20;

/** Reads the publication of a grant. `undefined`: there is none. */
export async function readPublished(
  grant: Extract<Grant, { driver: "objects" }>,
  context: CallContext,
): Promise<PublicationObject | undefined> {
  const { outcome, body } = await callSigned(grant.publication, { method: "GET", ...context }, maximumBytes);
  return outcome === "absent" ? undefined : decodePublication(body, grant);
}
