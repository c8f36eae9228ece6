import { createHash, type Hash } from "node:crypto";
import { open, type FileHandle } from "node:fs/promises";
import { setImmediate as immediate } from "node:timers/promises";
import type { ObjectsReadGrant, SignedRequest } from "../../api/cell/grant.ts";
import { lost, type ManifestFile } from "../manifest.ts";
import { callSigned, type SignedAnswer } from "./signed-http.ts";

/** With several parts on their way a connection's hiccup holds up little; this much of each file is in memory meanwhile. */
const partBytes = 4 << 20;
const partsAtOnce = 4;
/** What is hashed at a stretch: a cell answers its controller in between. */
const sliceBytes = 1 << 20;

/**
 * Downloads the `index`-th file of a checkpoint in parts, several at a time, and hashes them in order as they come.
 * @throws RametError `CheckpointLost` when it is not what the manifest says
 */
export async function downloadFile(
  grant: ObjectsReadGrant,
  file: ManifestFile,
  { index, path, signal }: { index: number; path: string; signal: AbortSignal },
): Promise<void> {
  const signed = grant.files[index];
  if (signed === undefined) throw lost(grant, "it was published after its grant was given");
  const target = await open(path, "wx", 0o400);
  try {
    const digest = await download(signed, file.sizeBytes, { target, signal });
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
  { target, signal }: { target: FileHandle; signal: AbortSignal },
): Promise<string | undefined> {
  const hash = createHash("sha256");
  const coming: Promise<SignedAnswer>[] = [];
  let next = 0;
  for (let start = 0; start < sizeBytes; start += partBytes) {
    for (; next < sizeBytes && coming.length < partsAtOnce; next += partBytes) {
      const part = getPart(signed, next, { length: Math.min(partBytes, sizeBytes - next), signal });
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
  { length, signal }: { length: number; signal: AbortSignal },
): Promise<SignedAnswer> {
  const headers = { range: `bytes=${start}-${start + length - 1}` };
  return callSigned(signed, { method: "GET", headers, signal }, length);
}

async function hashInSlices(hash: Hash, bytes: Buffer): Promise<void> {
  for (let from = 0; from < bytes.length; from += sliceBytes) {
    hash.update(bytes.subarray(from, from + sliceBytes));
    await immediate();
  }
}
