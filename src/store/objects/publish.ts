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
import { type ManifestDraft, encodeManifest, imageFiles, manifestFrom, sizeOf, splitOf } from "../manifest.ts";
import type { OpenForWriteOptions, Publication, PublishedCheckpoint, Step, WriteSession } from "../sessions.ts";
import { alreadyPublished } from "../store-error.ts";
import { allOrNone } from "./client-calls.ts";
import { encodePublication, isPublicationUrl, publishedCheckpoint, readPublished } from "./layout.ts";
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
    ...(await uploadDigest(upload.path, splitOf(upload.name, draft), either)),
  }));
  timer.end("hash");

  const { namespace, checkpointId } = grant;
  const named = files.map(({ name, digest, sizeBytes, split }) => ({
    name,
    digest,
    sizeBytes,
    ...defined({ split }),
  }));
  const manifest = manifestFrom({ namespace, checkpointId }, named, draft);
  const published = { manifestDigest: encodeManifest(manifest).digest, sizeBytes: sizeOf(manifest) };
  if (!(await isPublished(attempt, published))) {
    await allOrNone(signal, files, async ({ request, path, ...file }, either) => {
      const isUploaded = await uploadFile(request, path, { ...file, clock, signal: either });
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

/** @throws RametError `CheckpointTooLarge` */
function requireFits(grant: ObjectsWriteGrant, name: string, sizeBytes: number): void {
  if (sizeBytes <= grant.largestFileBytes) return;
  throw new RametError(
    "CheckpointTooLarge",
    `cannot write checkpoint ${grant.checkpointId}: file ${name} has ${sizeBytes} bytes, but the store accepts files of at most ${grant.largestFileBytes} bytes`,
    { hint: "Give the sandbox less memory, or use a directory that all nodes mount as the store" },
  );
}

interface Upload {
  name: string;
  path: string;
  request: SignedRequest;
}

async function uploadsOf({ grant, stagingPath }: Attempt): Promise<Upload[]> {
  const names = await imageFiles(stagingPath);
  const uploads = names.map(async (name, index) => {
    const request = grant.files[index];
    if (request === undefined) throw tooManyFiles(names.length, grant.files.length);
    const path = join(stagingPath, name);
    requireFits(grant, name, (await stat(path)).size);
    return { name, path, request };
  });
  return Promise.all(uploads);
}

function tooManyFiles(count: number, maximum: number): RametError {
  const why = `the checkpoint has ${count} files, but its grant allows ${maximum}`;
  return new RametError("InvalidArgument", `cannot publish the checkpoint: ${why}`);
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

interface UploadDigest extends ContentDigest {
  /** In base64, as in the request header. */
  md5: string;
}

/** Computes the digests that the store and the manifest verify. */
async function uploadDigest(path: string, splitAt: number | undefined, signal: AbortSignal): Promise<UploadDigest> {
  const [sha256, md5] = [new ContentHash(splitAt), createHash("md5")];
  const file = await open(path);
  const sizeBytes = await hashFile(file, [sha256, md5], signal).finally(() => file.close());
  return { ...sha256.digests(), md5: md5.digest("base64"), sizeBytes };
}

/**
 * Uploads a file. The MD5 header makes the store accept exactly these bytes or none, even if a connection breaks and the upload
 * is retried. (The ETag of the response is not an MD5 in a bucket with customer-managed encryption keys.)
 * @returns false if the object existed before
 */
async function uploadFile(
  request: SignedRequest,
  path: string,
  { md5, sizeBytes, clock, signal }: UploadDigest & CallContext,
): Promise<boolean> {
  const headers = { "content-length": `${sizeBytes}`, "content-md5": md5 };
  const content =
    sizeBytes < largeBytes
      ? { headers, body: await readFile(path) }
      : { headers: { ...headers, expect: "100-continue" }, upload: () => createReadStream(path, { highWaterMark }) };
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
