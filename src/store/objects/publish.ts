import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { open, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import type { ObjectsWriteGrant, SignedRequest } from "../../api/cell/grant.ts";
import type { Clock } from "../../base/clock.ts";
import { RametError } from "../../base/errors.ts";
import { phaseTimer } from "../../base/phases.ts";
import { type ContentDigest, hashFile } from "../content-digest.ts";
import { refused } from "../grant-check.ts";
import { encodeManifest, imageFiles, type ManifestDraft, manifestFrom, sizeOf } from "../manifest.ts";
import type { Publication, PublishedCheckpoint, Step } from "../sessions.ts";
import { alreadyPublished } from "../store-error.ts";
import { allOrNone } from "./client-calls.ts";
import { encodePublication, publishedCheckpoint, readPublished } from "./publication.ts";
import { type CallContext, callSigned } from "./signed-http.ts";

export interface Attempt {
  grant: ObjectsWriteGrant;
  /** The folder that has the files. */
  stagingPath: string;
  clock: Clock;
  step: Step;
  signal: AbortSignal | undefined;
}

/** All files, then the one object that makes them a checkpoint, which the store takes only where there is none. */
export async function publish(attempt: Attempt, draft: ManifestDraft): Promise<Publication> {
  const { grant, clock, step, signal } = attempt;
  const timer = phaseTimer();
  const places = await placesOf(attempt);
  const files = await allOrNone(signal, places, async (place, until) => ({
    ...place,
    ...(await uploadDigest(place.path, until)),
  }));
  timer.end("hash");

  const { namespace, checkpointId } = grant;
  const named = files.map(({ name, digest, sizeBytes }) => ({ name, digest, sizeBytes }));
  const manifest = manifestFrom({ namespace, checkpointId }, named, draft);
  const published = { manifestDigest: encodeManifest(manifest).digest, sizeBytes: sizeOf(manifest) };
  if (!(await isPublished(attempt, published))) {
    await allOrNone(signal, files, async ({ request, path, ...file }, until) => {
      const taken = await uploadFile(request, path, { ...file, clock, signal: until });
      if (!taken) throw refused(grant, "it was used already");
      await step("file uploaded");
    });
    timer.end("upload");
    await step("uploaded");
    await takeId(attempt, encodePublication(grant.attempt, manifest), published);
  }
  timer.end("manifest");
  await step("published");
  return { ...published, sharedBytes: 0, phases: timer.phases };
}

/** What is published under the grant's id; `undefined`: nothing. */
export async function findPublished(
  grant: ObjectsWriteGrant,
  context: CallContext,
): Promise<PublishedCheckpoint | undefined> {
  const publication = await readPublished(grant, context);
  return publication && publishedCheckpoint(publication, grant);
}

/** @throws RametError `CheckpointTooLarge` */
export function requireFits(grant: ObjectsWriteGrant, what: string, sizeBytes: number): void {
  if (sizeBytes <= grant.largestFileBytes) return;
  throw new RametError(
    "CheckpointTooLarge",
    `writing checkpoint ${grant.checkpointId} was refused: ${what} has ${sizeBytes} bytes, and the store takes ${grant.largestFileBytes} for one file`,
    { hint: "Give the sandbox less memory, or keep its checkpoints in a folder that all nodes mount." },
  );
}

interface Place {
  name: string;
  path: string;
  /** Signed for this file alone. */
  request: SignedRequest;
}

async function placesOf({ grant, stagingPath }: Attempt): Promise<Place[]> {
  const names = await imageFiles(stagingPath);
  const places = names.map(async (name, index) => {
    const request = grant.files[index];
    if (request === undefined) throw tooManyFiles(names.length, grant.files.length);
    const path = join(stagingPath, name);
    requireFits(grant, `file ${name}`, (await stat(path)).size);
    return { name, path, request };
  });
  return Promise.all(places);
}

function tooManyFiles(count: number, most: number): RametError {
  const why = `the checkpoint has ${count} files, and its grant is for ${most}`;
  return new RametError("InvalidArgument", `publishing was refused: ${why}`);
}

/** Whether a former attempt has published the same. @throws RametError `AlreadyExists`: it has published something else */
async function isPublished({ grant, clock, signal }: Attempt, published: PublishedCheckpoint): Promise<boolean> {
  const former = await findPublished(grant, { clock, signal });
  if (former === undefined || former.manifestDigest === published.manifestDigest) return former !== undefined;
  throw alreadyPublished(grant, former.manifestDigest);
}

/** The one instant at which the checkpoint comes to be. Only a removal at the same time makes a second try worthwhile. */
async function takeId(attempt: Attempt, bytes: Buffer, published: PublishedCheckpoint): Promise<void> {
  const { grant, clock, signal } = attempt;
  const headers = { "content-length": `${bytes.length}` };
  for (let tries = 3; tries > 0; tries -= 1) {
    const { outcome } = await callSigned(grant.publish, { method: "PUT", headers, body: bytes, clock, signal });
    if (outcome === "done" || (await isPublished(attempt, published))) return;
  }
  throw alreadyPublished(grant, "that is missing");
}

/** From which size on a store is asked first whether it wants a file. */
const largeBytes = 1 << 20;
const highWaterMark = 1 << 20;

interface UploadDigest extends ContentDigest {
  /** Base64, as it stands in a request's header. */
  md5: string;
}

/** What a file has to be when it arrives. */
async function uploadDigest(path: string, signal: AbortSignal): Promise<UploadDigest> {
  const [sha256, md5] = [createHash("sha256"), createHash("md5")];
  const file = await open(path);
  const sizeBytes = await hashFile(file, [sha256, md5], signal).finally(() => file.close());
  return { digest: `sha256:${sha256.digest("hex")}`, md5: md5.digest("base64"), sizeBytes };
}

/**
 * Uploads a file; whether the store took it: it refuses where it has one. The MD5 goes with it, so that the store keeps these
 * very bytes or none: it refuses others, and what it has after a connection broke in the middle can be no others. (The ETag of
 * its answer is no MD5 where a bucket is encrypted by a customer's keys.)
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
