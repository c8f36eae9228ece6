import { createHash, type Hash } from "node:crypto";
import { type FileHandle, mkdtemp, open, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setImmediate as immediate } from "node:timers/promises";
import type { ObjectsReadGrant, SignedRequest } from "../../api/cell/grant.ts";
import { type Clock, systemClock } from "../../base/clock.ts";
import { checkGrant, refused } from "../grant-check.ts";
import { decodeManifest, lost, type ManifestFile } from "../manifest.ts";
import type { OpenForReadOptions, ReadSession } from "../sessions.ts";
import { allOrNone } from "./client-calls.ts";
import { isPublicationUrl } from "./layout.ts";
import { readPublished } from "./publication.ts";
import { callSigned, inCell, type SignedAnswer } from "./signed-http.ts";

/** The cell's side of a restore; `openForRead` says what it promises. All of the checkpoint is here when this answers. */
export async function openObjectsForRead(grant: ObjectsReadGrant, options: OpenForReadOptions): Promise<ReadSession> {
  const { clock = systemClock } = options;
  checkGrant(grant, "read", clock);
  if (!isPublicationUrl(grant.publication.url, grant)) throw refused(grant, "it is signed for another checkpoint");
  return inCell(`opening checkpoint ${grant.checkpointId} for reading`, grant, async () => {
    const publication = await readPublished(grant, { clock, signal: options.signal });
    if (publication === undefined) throw lost(grant, "it is not in the store");
    const manifest = decodeManifest(publication.manifestBytes, grant, grant.manifestDigest);
    await options.onStep?.("manifest");
    const imagePath = await mkdtemp(join(options.scratchPath ?? tmpdir(), "restore-"));
    const release = (): Promise<void> => rm(imagePath, { recursive: true, force: true });
    try {
      await allOrNone(options.signal, manifest.files, (file, signal, index) =>
        downloadFile(grant, file, { index, path: join(imagePath, file.name), clock, signal }),
      );
    } catch (error) {
      await release();
      throw error;
    }
    await options.onStep?.("held");
    return { manifest, imagePath, rehashed: [], release };
  });
}

/** With several parts on their way a connection's hiccup holds up little; this much of each file is in memory meanwhile. */
const partBytes = 4 << 20;
const partsAtOnce = 4;
/** What is hashed at a stretch: a cell answers its controller in between. */
const sliceBytes = 1 << 20;

/**
 * Downloads the `index`-th file of a checkpoint in parts, several at a time, and hashes them in order as they come.
 * @throws RametError `CheckpointLost` when it is not what the manifest says
 */
async function downloadFile(
  grant: ObjectsReadGrant,
  file: ManifestFile,
  { index, path, clock, signal }: { index: number; path: string; clock: Clock; signal: AbortSignal },
): Promise<void> {
  const signed = grant.files[index];
  if (signed === undefined) throw lost(grant, "it was published after its grant was given");
  const target = await open(path, "wx", 0o400);
  try {
    const digest = await download(signed, file.sizeBytes, { target, clock, signal });
    if (digest === undefined) throw lost(grant, `its file ${file.name} is not in the store, or shorter than published`);
    if (digest === file.digest) return;
    throw lost(grant, `its file ${file.name} hashes to ${digest}, published was ${file.digest}`);
  } finally {
    await target.close();
  }
}

/** Writes all parts to `target`, and answers the digest of what came; `undefined`: a part is not there. */
async function download(
  signed: SignedRequest,
  sizeBytes: number,
  { target, clock, signal }: { target: FileHandle; clock: Clock; signal: AbortSignal },
): Promise<string | undefined> {
  const hash = createHash("sha256");
  const coming: Promise<SignedAnswer>[] = [];
  let next = 0;
  for (let start = 0; start < sizeBytes; start += partBytes) {
    for (; next < sizeBytes && coming.length < partsAtOnce; next += partBytes) {
      const part = getPart(signed, next, { length: Math.min(partBytes, sizeBytes - next), clock, signal });
      // Of several that fail, the first in order is told.
      part.catch(() => undefined);
      coming.push(part);
    }
    const answer = await coming.shift();
    if (answer?.outcome !== "done") return undefined;
    await Promise.all([target.appendFile(answer.body), hashInSlices(hash, answer.body)]);
  }
  return `sha256:${hash.digest("hex")}`;
}

function getPart(
  signed: SignedRequest,
  start: number,
  { length, clock, signal }: { length: number; clock: Clock; signal: AbortSignal },
): Promise<SignedAnswer> {
  const headers = { range: `bytes=${start}-${start + length - 1}` };
  return callSigned(signed, { method: "GET", headers, clock, signal }, length);
}

async function hashInSlices(hash: Hash, bytes: Buffer): Promise<void> {
  for (let from = 0; from < bytes.length; from += sliceBytes) {
    hash.update(bytes.subarray(from, from + sliceBytes));
    await immediate();
  }
}
