import { createHash, randomUUID } from "node:crypto";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGunzip } from "node:zlib";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { annotations, labels, restoreFromAnnotations } from "../../api/names/labels.ts";
import { apiVersion } from "../../api/schema/kind.ts";
import { TreeCheck } from "../../api/tree/tree-check.ts";
import {
  treeArchive,
  treeCheckpointName,
  treeMetadata,
  treePurpose,
  treeUser,
  uploadedTree,
} from "../../api/tree/tree-upload.ts";
import { RametError } from "../../base/errors.ts";
import type { GuestClient } from "../../cell/client/guest-client.ts";
import { untilCaptured } from "../../operations/capture.ts";
import { objectOf } from "../../operations/objects.ts";
import { untilServing } from "./create-sandbox.ts";
import type { Guests } from "./guests.ts";
import type { ServiceParts } from "./parts.ts";
import { findSource } from "./source.ts";

export interface TreeUpload {
  namespace: string;
  /** Identifies the content: 64 hex digits. */
  digest: string;
  /** The API key whose limits the tree counts for. */
  owner: string;
  /** An archive in the format of tar, with or without gzip. */
  archive: Readable;
  signal: AbortSignal;
}

/** Whether the namespace has a tree. */
export function hasTree({ informers }: ServiceParts, namespace: string, digest: string): boolean {
  const found = informers.checkpoints.store.get(`${namespace}/${treeCheckpointName(digest)}`);
  return uploadedTree(found, digest) !== undefined;
}

/**
 * Stores an uploaded directory tree as the Checkpoint of a sandbox that has the archive, and waits until that has succeeded. A
 * repeated upload changes nothing.
 * @throws RametError `InvalidArgument` for an archive that is not valid or too large
 */
export async function uploadTree(parts: ServiceParts, guests: Guests, upload: TreeUpload): Promise<void> {
  const { namespace, digest, owner, archive, signal } = upload;
  if (hasTree(parts, namespace, digest)) {
    // The client sees an error if nobody reads what it sends.
    for await (const _ of archive) signal.throwIfAborted();
    return;
  }
  const carrier = await createCarrier(parts, upload);
  try {
    const options = { timeoutMilliseconds: startMilliseconds, signal, isNew: true };
    const guest = await guests.guest(await untilServing(parts, carrier, options), treeUser);
    const sha256 = await write(guest, archive, signal);
    await capture(parts, { carrier, digest, owner, sha256 }, signal);
  } finally {
    const { metadata } = carrier;
    await parts.informers.sandboxes.resource.delete(metadata, { uid: metadata.uid }).catch(() => undefined);
  }
}

/** The sandbox is deleted at its end even if nobody is left to do that. Clients do not see it. */
function createCarrier(parts: ServiceParts, { namespace, digest, signal }: TreeUpload): Promise<Sandbox> {
  const { restoreFrom, spec } = carrierSource(parts, namespace);
  const shutdownTime = new Date(parts.clock.now().getTime() + longestMilliseconds).toISOString();
  const metadata = {
    namespace,
    name: `${treeCheckpointName(digest).slice(0, 20)}-${randomUUID().slice(0, 8)}`,
    labels: { [labels.purpose]: treePurpose },
    annotations: { [annotations.sandboxPriority]: "100", ...restoreFrom },
  };
  return parts.informers.sandboxes.resource.create(
    { apiVersion, kind: "Sandbox", metadata, spec: { ...spec, shutdownTime } },
    { signal },
  );
}

/** Any sandbox can hold a file, so it is made like those of clients that do not name a template. */
function carrierSource(parts: ServiceParts, namespace: string): { restoreFrom?: Record<string, string>; spec: object } {
  const source = findSource(parts, namespace, carrierTemplate);
  if (source.kind === "template") return { spec: { templateRef: { name: source.name } } };
  if (source.kind === "checkpoint") return { restoreFrom: { [restoreFromAnnotations[0]]: source.reference }, spec: {} };
  const { template, templateRef } = source.set.spec;
  return { spec: templateRef === undefined ? { template } : { templateRef: { name: templateRef.name } } };
}

const carrierTemplate = "base";

/** Writes the archive without its compression, and checks it meanwhile. @returns its SHA-256 */
async function write(guest: GuestClient, archive: Readable, signal: AbortSignal): Promise<string> {
  const check = new TreeCheck();
  const hash = createHash("sha256");
  let problem: unknown;
  async function* checked(): AsyncGenerator<Buffer> {
    try {
      for await (const chunk of (await decompressed(archive)) as AsyncIterable<Buffer>) {
        check.add(chunk);
        hash.update(chunk);
        yield chunk;
      }
      check.end();
    } catch (error) {
      problem = error instanceof RametError ? error : notReadable(error);
      throw error;
    }
  }
  try {
    await guest.writeFile(treeArchive, Readable.from(checked()), signal);
  } catch (error) {
    // The guest only sees that the upload broke off.
    throw problem ?? error;
  }
  return hash.digest("hex");
}

async function decompressed(archive: Readable): Promise<Readable> {
  const chunks = archive.iterator() as AsyncIterableIterator<Buffer>;
  const first = await chunks.next();
  if (first.done === true) return Readable.from([]);
  const head = first.value;
  async function* all(): AsyncGenerator<Buffer> {
    yield head;
    yield* chunks;
  }
  const whole = Readable.from(all());
  if (head[0] !== 0x1f || head[1] !== 0x8b) return whole;
  const gunzip = createGunzip();
  pipeline(whole, gunzip).catch(() => undefined);
  return gunzip;
}

function notReadable(cause: unknown): RametError {
  return new RametError("InvalidArgument", `The archive cannot be read: ${RametError.from(cause).message}`, { cause });
}

async function capture(
  { informers, objects }: ServiceParts,
  { carrier, digest, owner, sha256 }: { carrier: Sandbox; digest: string; owner: string; sha256: string },
  signal: AbortSignal,
): Promise<void> {
  const { resource } = informers.checkpoints;
  const { namespace, name } = carrier.metadata;
  const metadata = treeMetadata({ namespace, digest, sha256 });
  const manifest = {
    apiVersion,
    kind: "Checkpoint",
    metadata: { ...metadata, annotations: { ...metadata.annotations, [annotations.owner]: owner } },
    spec: { sandboxName: name, persistentContents: ["filesystem"], keepRunning: true },
  };
  const created = await resource.create(manifest, { signal }).catch((error: unknown) => {
    // Another client has uploaded the same tree meanwhile.
    if (RametError.from(error).code === "AlreadyExists") return resource.get(manifest.metadata, { signal });
    throw error;
  });
  try {
    objectOf(await untilCaptured(objects, created, { timeoutMilliseconds: captureMilliseconds, signal }));
  } catch (error) {
    await objects.checkpoints.remove(created).catch(() => undefined);
    throw error;
  }
}

const startMilliseconds = 120_000;
const captureMilliseconds = 600_000;
/** Longer than an upload may take. */
const longestMilliseconds = 7_200_000;
