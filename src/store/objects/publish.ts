import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { mkdtemp, open, readFile, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ObjectsWriteGrant, SignedRequest } from "../../api/wire/grant.ts";
import { type Clock, phaseTimer, systemClock } from "../../base/clock.ts";
import { defined } from "../../base/defined.ts";
import { RametError } from "../../base/errors.ts";
import { checkGrant, invalidGrant } from "../checkpoint-id.ts";
import { type ContentDigest, ContentHash, hashFile } from "../directory/content.ts";
import {
  type ManifestDraft,
  encodeManifest,
  imageFiles,
  manifestFrom,
  objectUnitBytes,
  sizeOf,
  splitOf,
} from "../manifest.ts";
import type { OpenForWriteOptions, Publication, PublishedCheckpoint, Step, WriteSession } from "../sessions.ts";
import { alreadyPublished } from "../store-error.ts";
import { allOrNone } from "./client-calls.ts";
import { encodePublication, isPublicationUrl, objectsOf, publishedCheckpoint, readPublished } from "./layout.ts";
import { type CallContext, callSigned, inCell } from "./signed-http.ts";

export interface Attempt {
  grant: ObjectsWriteGrant;
  /** The directory that contains the files. */
  stagingPath: string;
  clock: Clock;
  step: Step;
  signal: AbortSignal | undefined;
}

/** Uploads all files, then creates the object that publishes them. The store rejects that object if it exists. */
export async function publish(attempt: Attempt, draft: ManifestDraft): Promise<Publication> {
  const { grant, clock, step, signal } = attempt;
  const timer = phaseTimer();
  const uploads = await uploadsOf(attempt);
  const files = await allOrNone(signal, uploads, async (upload, either) => ({
    ...upload,
    ...(await uploadDigests(upload, splitOf(upload.name, draft), either)),
  }));
  timer.end("hash");

  const { namespace, checkpointId } = grant;
  const named = files.map(({ name, digest, sizeBytes, split, objectBytes }) => ({
    name,
    digest,
    sizeBytes,
    ...defined({ split, objectBytes }),
  }));
  const manifest = manifestFrom({ namespace, checkpointId }, named, draft);
  const published = { manifestDigest: encodeManifest(manifest).digest, sizeBytes: sizeOf(manifest) };
  if (!(await isPublished(attempt, published))) {
    const objects = files.flatMap((file) =>
      file.objects.map((object, index) => ({ ...object, path: file.path, md5: file.md5s[index] ?? "" })),
    );
    await allOrNone(signal, objects, async (object, either) => {
      const isUploaded = await uploadObject(object, { clock, signal: either });
      if (!isUploaded) throw invalidGrant(grant, "it has already been used");
      await step("file uploaded");
    });
    timer.end("upload");
    await step("uploaded");
    await claimId(attempt, encodePublication(grant.attempt, manifest), published);
  }
  timer.end("manifest");
  await step("published");
  return { ...published, sharedBytes: 0, phases: timer.phases };
}

/** Finds the checkpoint that is published under the grant's id. */
export async function findPublished(
  grant: ObjectsWriteGrant,
  context: CallContext,
): Promise<PublishedCheckpoint | undefined> {
  const publication = await readPublished(grant, context);
  return publication && publishedCheckpoint(publication, grant);
}

interface Upload {
  name: string;
  path: string;
  objectBytes: number | undefined;
  objects: UploadedObject[];
}

/** A part of a file, and where it is uploaded to. */
interface UploadedObject {
  request: SignedRequest;
  startBytes: number;
  sizeBytes: number;
}

/** @throws RametError `CheckpointTooLarge` */
async function uploadsOf({ grant, stagingPath }: Attempt): Promise<Upload[]> {
  const names = await imageFiles(stagingPath);
  const requests = [...grant.files];
  const largest = grant.largestFileBytes - (grant.largestFileBytes % objectUnitBytes);
  const uploads: Upload[] = [];
  for (const name of names) {
    const path = join(stagingPath, name);
    const { size: sizeBytes } = await stat(path);
    const objectBytes = sizeBytes <= grant.largestFileBytes ? undefined : largest;
    const parts = objectsOf({ sizeBytes, objectBytes });
    const objects = parts.flatMap((part) => {
      const request = requests.shift();
      return request === undefined ? [] : [{ request, ...part }];
    });
    if (objects.length < parts.length) throw tooLarge(grant, { name, sizeBytes, fileCount: names.length });
    uploads.push({ name, path, objectBytes, objects });
  }
  return uploads;
}

function tooLarge(
  { checkpointId, files, largestFileBytes }: ObjectsWriteGrant,
  { name, sizeBytes, fileCount }: { name: string; sizeBytes: number; fileCount: number },
): RametError {
  if (fileCount > files.length) {
    const why = `the checkpoint has ${fileCount} files, but its grant allows ${files.length}`;
    return new RametError("InvalidArgument", `cannot publish the checkpoint: ${why}`);
  }
  return new RametError(
    "CheckpointTooLarge",
    `cannot write checkpoint ${checkpointId}: file ${name} has ${sizeBytes} bytes, but the store accepts ${files.length} objects of at most ${largestFileBytes} bytes for all files`,
    {
      hint: "Give the sandbox less memory or a smaller limit of ephemeral-storage, or use a directory that all nodes mount as the store",
    },
  );
}

/** Returns whether an earlier attempt published the same content. @throws RametError `AlreadyExists` for other content */
async function isPublished({ grant, clock, signal }: Attempt, published: PublishedCheckpoint): Promise<boolean> {
  const existing = await findPublished(grant, { clock, signal });
  if (existing === undefined || existing.manifestDigest === published.manifestDigest) return existing !== undefined;
  throw alreadyPublished(grant, existing.manifestDigest);
}

/** Publishes the checkpoint atomically. Retries only if a concurrent removal freed the id. */
async function claimId(attempt: Attempt, bytes: Buffer, published: PublishedCheckpoint): Promise<void> {
  const { grant, clock, signal } = attempt;
  const headers = { "content-length": `${bytes.length}` };
  for (let attempts = 3; attempts > 0; attempts -= 1) {
    const { outcome } = await callSigned(grant.publish, { method: "PUT", headers, body: bytes, clock, signal });
    if (outcome === "done" || (await isPublished(attempt, published))) return;
  }
  throw alreadyPublished(grant, "of a concurrent attempt");
}

/** Larger files are uploaded with `Expect: 100-continue`. */
const largeBytes = 1 << 20;
const highWaterMark = 1 << 20;

interface UploadDigests extends ContentDigest {
  /** Of each object, in base64, as in the request header. */
  md5s: string[];
}

/** Computes the digests that the store and the manifest verify. */
async function uploadDigests(
  { path, objectBytes = Infinity }: Upload,
  splitAt: number | undefined,
  signal: AbortSignal,
): Promise<UploadDigests> {
  const [sha256, md5s] = [new ContentHash(splitAt), new ObjectHashes(objectBytes)];
  const file = await open(path);
  const sizeBytes = await hashFile(file, [sha256, md5s], signal).finally(() => file.close());
  return { ...sha256.digests(), md5s: md5s.digests(), sizeBytes };
}

/** Hashes each object of a file. */
class ObjectHashes {
  readonly #objectBytes: number;
  readonly #done: string[] = [];
  #current = createHash("md5");
  #left: number;

  constructor(objectBytes: number) {
    this.#objectBytes = objectBytes;
    this.#left = objectBytes;
  }

  update(data: Buffer): void {
    for (let rest = data; rest.length > 0;) {
      if (this.#left === 0) this.#end();
      const part = rest.subarray(0, Math.min(rest.length, this.#left));
      this.#current.update(part);
      this.#left -= part.length;
      rest = rest.subarray(part.length);
    }
  }

  digests(): string[] {
    this.#end();
    return this.#done;
  }

  #end(): void {
    this.#done.push(this.#current.digest("base64"));
    this.#current = createHash("md5");
    this.#left = this.#objectBytes;
  }
}

/**
 * Uploads an object. The MD5 header makes the store accept exactly these bytes or none, even if a connection breaks and the upload
 * is retried. (The ETag of the response is not an MD5 in a bucket with customer-managed encryption keys.)
 * @returns false if the object existed before
 */
async function uploadObject(
  { request, path, startBytes, sizeBytes, md5 }: UploadedObject & { path: string; md5: string },
  { clock, signal }: CallContext,
): Promise<boolean> {
  const headers = { "content-length": `${sizeBytes}`, "content-md5": md5 };
  const range = { start: startBytes, end: startBytes + sizeBytes - 1, highWaterMark };
  const content =
    sizeBytes < largeBytes && startBytes === 0
      ? { headers, body: await readFile(path) }
      : { headers: { ...headers, expect: "100-continue" }, upload: () => createReadStream(path, range) };
  const { outcome, tries } = await callSigned(request, { method: "PUT", ...content, clock, signal });
  return outcome === "done" || tries > 1;
}

/** Implements `openForWrite` for a bucket. */
export async function openObjectsForWrite(
  grant: ObjectsWriteGrant,
  options: OpenForWriteOptions,
): Promise<WriteSession> {
  const { clock = systemClock } = options;
  const step: Step = async (name) => options.onStep?.(name);
  checkGrant(grant, "write", clock);
  if (!isPublicationUrl(grant.publish.url, grant)) throw invalidGrant(grant, "it is signed for another checkpoint");
  return inCell(`opening checkpoint ${grant.checkpointId} for writing`, grant, async () => {
    const published = await findPublished(grant, { clock, signal: options.signal });
    const stagingPath = await mkdtemp(join(options.scratchPath ?? tmpdir(), "checkpoint-"));
    await step("staged");
    return {
      stagingPath,
      published,
      publish: async (draft, signal) => {
        checkGrant(grant, "write", clock);
        const what = `publishing checkpoint ${grant.checkpointId}`;
        return inCell(what, grant, () => publish({ grant, stagingPath, clock, step, signal }, draft));
      },
      abandon: () =>
        inCell(`abandoning checkpoint ${grant.checkpointId}`, grant, () =>
          rm(stagingPath, { recursive: true, force: true }),
        ),
    };
  });
}
