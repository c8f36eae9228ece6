import { type Hash, createHash } from "node:crypto";
import { type FileHandle, lstat, mkdir, mkdtemp, open, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setImmediate as immediate } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import type { ObjectsReadGrant, SignedRequest } from "../../api/wire/grant.ts";
import { type Clock, systemClock } from "../../base/clock.ts";
import { checkGrant, invalidGrant } from "../checkpoint-id.ts";
import { type Fingerprints, fingerprintOf, readFingerprints, writeFingerprints } from "../directory/content.ts";
import { writeWithHoles } from "../directory/durable.ts";
import { type Manifest, type ManifestFile, decodeManifest, lost, objectUnitBytes, sizeOf } from "../manifest.ts";
import type { OpenForReadOptions, ReadSession, SharedEntry } from "../sessions.ts";
import { allOrNone } from "./client-calls.ts";
import { isPublicationUrl, numbersOf, readPublished } from "./layout.ts";
import { type SignedResponse, callSigned, inCell } from "./signed-http.ts";

/** Implements `openForRead` for a bucket. Resolves when the whole checkpoint is downloaded. */
export async function openObjectsForRead(grant: ObjectsReadGrant, options: OpenForReadOptions): Promise<ReadSession> {
  const { clock = systemClock } = options;
  checkGrant(grant, "read", clock);
  if (!isPublicationUrl(grant.publication.url, grant)) throw invalidGrant(grant, "it is signed for another checkpoint");
  return inCell(`opening checkpoint ${grant.checkpointId} for reading`, grant, async () => {
    const publication = await readPublished(grant, { clock, signal: options.signal });
    if (publication === undefined) throw lost(grant, "it is not in the store");
    const manifest = decodeManifest(publication.manifestBytes, grant, grant.manifestDigest);
    await options.onStep?.("manifest");
    const numbers = numbersOf(manifest.files);
    const download = async (directory: string): Promise<void> => {
      await allOrNone(options.signal, manifest.files, (file, signal, at) => {
        const objects = numbers[at]?.map((number) => grant.files[number]) ?? [];
        return downloadFile(grant, file, { objects, path: join(directory, file.name), clock, signal });
      });
    };
    const shared = await options.shared?.provide(sharedImage(manifest, grant.manifestDigest, download));
    if (shared !== undefined) {
      await options.onStep?.("held");
      return { manifest, imagePath: join(shared.path, sharedFiles), rehashed: [], release: shared.release };
    }
    const imagePath = await mkdtemp(join(options.scratchPath ?? tmpdir(), "restore-"));
    const release = (): Promise<void> => rm(imagePath, { recursive: true, force: true });
    try {
      await download(imagePath);
    } catch (error) {
      await release();
      throw error;
    }
    await options.onStep?.("held");
    return { manifest, imagePath, rehashed: [], release };
  });
}

/** The files of a shared image. Beside them are their fingerprints. */
const sharedFiles = "files";

/** An image that a cell of this node downloads for all. A file that was changed since differs from its recorded fingerprint. */
function sharedImage(
  { files }: Manifest,
  manifestDigest: string,
  download: (directory: string) => Promise<void>,
): SharedEntry {
  const recordIn = (directory: string) => ({ fingerprints: join(directory, "fingerprints.json") });
  const expected = files.map(({ name }) => name).sort();
  const fingerprintsIn = async (directory: string): Promise<Fingerprints> => {
    // gVisor also acts on files that no manifest names.
    const isDirectory = (await lstat(join(directory, sharedFiles))).isDirectory();
    const names = isDirectory ? (await readdir(join(directory, sharedFiles))).sort() : [];
    if (!isDeepStrictEqual(names, expected)) throw new Error("its files are others");
    const found = expected.map(async (name) => {
      const stats = await lstat(join(directory, sharedFiles, name), { bigint: true });
      if (!stats.isFile()) throw new Error(`${name} is no file`);
      return [name, fingerprintOf(stats)] as const;
    });
    return Object.fromEntries(await Promise.all(found));
  };
  return {
    name: `image-${manifestDigest.slice("sha256:".length)}`,
    sizeBytes: sizeOf({ files }),
    fill: async (directory) => {
      await mkdir(join(directory, sharedFiles), { mode: 0o700 });
      await download(join(directory, sharedFiles));
      await writeFingerprints(recordIn(directory), join(directory, "draft"), await fingerprintsIn(directory));
    },
    isIntact: async (directory) => {
      const found = await fingerprintsIn(directory).catch(() => undefined);
      return isDeepStrictEqual(found, await readFingerprints(recordIn(directory)));
    },
  };
}

/** Parallel parts reduce the effect of a slow connection. Each file needs this much memory during the download. */
const partBytes = objectUnitBytes;
const parallelParts = 4;
/** Hashing yields to the event loop after each slice, so that the cell stays responsive. */
const sliceBytes = 1 << 20;

/** Of each object of a file. Undefined: the grant has none. */
type SignedObjects = readonly (SignedRequest | undefined)[];

/**
 * Downloads a file of a checkpoint in parallel parts, and hashes the parts in order.
 * @throws RametError `CheckpointLost` if the file does not match the manifest
 */
async function downloadFile(
  grant: ObjectsReadGrant,
  file: ManifestFile,
  { objects, path, clock, signal }: { objects: SignedObjects; path: string; clock: Clock; signal: AbortSignal },
): Promise<void> {
  if (objects.includes(undefined)) throw lost(grant, "it was published after its grant was created");
  const target = await open(path, "wx", 0o400);
  try {
    const digest = await download(objects, file, { target, clock, signal });
    if (digest === undefined) throw lost(grant, `its file ${file.name} is missing or shorter than published`);
    if (digest === file.digest) return;
    throw lost(grant, `its file ${file.name} has the digest ${digest} instead of ${file.digest}`);
  } finally {
    await target.close();
  }
}

/** Writes all parts to `target`. @returns the digest, or undefined if a part is missing */
async function download(
  objects: SignedObjects,
  { sizeBytes, objectBytes = Infinity }: ManifestFile,
  { target, clock, signal }: { target: FileHandle; clock: Clock; signal: AbortSignal },
): Promise<string | undefined> {
  const hash = createHash("sha256");
  const pending: Promise<SignedResponse | undefined>[] = [];
  let next = 0;
  for (let start = 0; start < sizeBytes; start += partBytes) {
    for (; next < sizeBytes && pending.length < parallelParts; next += partBytes) {
      const object = Math.floor(next / objectBytes);
      const start = object === 0 ? next : next - object * objectBytes;
      const length = Math.min(partBytes, sizeBytes - next);
      const part = getPart(objects[object], start, { length, clock, signal });
      // If several parts fail, the first in order is reported.
      part.catch(() => undefined);
      pending.push(part);
    }
    const response = await pending.shift();
    if (response?.outcome !== "done") return undefined;
    await Promise.all([writeWithHoles(target, response.body, start), hashInSlices(hash, response.body)]);
  }
  await target.truncate(sizeBytes);
  return `sha256:${hash.digest("hex")}`;
}

async function getPart(
  signed: SignedRequest | undefined,
  start: number,
  { length, clock, signal }: { length: number; clock: Clock; signal: AbortSignal },
): Promise<SignedResponse | undefined> {
  if (signed === undefined) return undefined;
  const headers = { range: `bytes=${start}-${start + length - 1}` };
  return callSigned(signed, { method: "GET", headers, clock, signal }, length);
}

async function hashInSlices(hash: Hash, bytes: Buffer): Promise<void> {
  for (let from = 0; from < bytes.length; from += sliceBytes) {
    hash.update(bytes.subarray(from, from + sliceBytes));
    await immediate();
  }
}
