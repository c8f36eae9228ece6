import { constants } from "node:fs";
import { type FileHandle, link, mkdir, mkdtemp, open, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { DirectoryGrant } from "../../api/cell/grant.ts";
import { systemClock } from "../../base/clock.ts";
import { contentDigest } from "../content-digest.ts";
import { checkGrant, refused } from "../grant-check.ts";
import { lost, type Manifest, type ManifestFile } from "../manifest.ts";
import type { OpenForReadOptions, ReadSession } from "../sessions.ts";
import { errnoOf, storeError } from "../store-error.ts";
import { unless } from "./durable.ts";
import {
  type Fingerprint,
  fingerprintOf,
  type Fingerprints,
  readFingerprints,
  sameFingerprint,
  writeFingerprints,
} from "./fingerprints.ts";
import { doomedPrefix, type Layout, restorePrefix } from "./layout.ts";
import { openNamespaceDirectory } from "./namespace-directory.ts";
import { publishedManifest } from "./published.ts";

/** The cell's side of a restore; `openForRead` says what it promises. */
export async function openDirectoryForRead(grant: DirectoryGrant, options: OpenForReadOptions): Promise<ReadSession> {
  checkGrant(grant, "read", options.clock ?? systemClock);
  try {
    const layout = await openNamespaceDirectory(grant);
    const held =
      (await holdByLinks(layout, grant.checkpointId)) ?? (await holdByHandles(options.scratchPath ?? tmpdir()));
    try {
      return await openHeld(layout, held, grant, options);
    } catch (error) {
      await held.release();
      throw error;
    }
  } catch (error) {
    throw storeError(error, `opening checkpoint ${grant.checkpointId} for reading`);
  }
}

async function openHeld(
  layout: Layout,
  held: HeldImage,
  grant: DirectoryGrant,
  options: OpenForReadOptions,
): Promise<ReadSession> {
  if (grant.manifestDigest === undefined) throw refused(grant, "it names no manifest");
  const fingerprints = readFingerprints(layout.checkpoint(grant.checkpointId));
  const manifest = await publishedManifest(layout, grant, grant.manifestDigest);
  await options.onStep?.("manifest");
  await Promise.all(manifest.files.map((file) => holdFile(layout, held, grant, file)));
  await options.onStep?.("held");
  const rehashed = await verifyImage(layout, held, manifest, { fingerprints, signal: options.signal });
  return { manifest, imagePath: held.path, rehashed, release: () => held.release() };
}

/** The checkpoint's own link first; should somebody have lost it, the kept content is the same file. */
async function holdFile(layout: Layout, held: HeldImage, grant: DirectoryGrant, file: ManifestFile): Promise<void> {
  const own = join(layout.checkpoint(grant.checkpointId).image, file.name);
  for (const source of [own, layout.content(file.digest)]) {
    const done = await unless(
      held.hold(source, file.name).then(() => true),
      "ENOENT",
      "ENOTDIR",
      "ELOOP",
      "EMLINK",
    );
    if (done === true) return;
  }
  throw lost(grant, `its file ${file.name} is not in the store`);
}

/**
 * Compares held files with their recorded fingerprints, hashes those that differ, and records what was found, so that
 * the next restore need not. Answers the names of what was hashed. `CheckpointLost`: a file is not what was published.
 */
async function verifyImage(
  layout: Layout,
  held: HeldImage,
  manifest: Manifest,
  { fingerprints, signal }: { fingerprints: Promise<Fingerprints>; signal?: AbortSignal | undefined },
): Promise<string[]> {
  const checkpoint = layout.checkpoint(manifest.checkpointId);
  const recorded = await fingerprints;
  const found: Fingerprints = {};
  const rehashed: string[] = [];
  await Promise.all(
    manifest.files.map(async (file) => {
      const check = await verifyFile(held, manifest, { file, recorded: recorded[file.name], signal });
      found[file.name] = check.fingerprint;
      if (check.rehashed) rehashed.push(file.name);
    }),
  );
  if (rehashed.length > 0 && held.writable) {
    // To record it only saves time, so a failure, or a checkpoint that is being removed, does not matter.
    await writeFingerprints(checkpoint, layout.stagingEntry(doomedPrefix), found).catch(() => undefined);
  }
  return rehashed.sort();
}

interface FileToVerify {
  file: ManifestFile;
  recorded: Fingerprint | undefined;
  signal: AbortSignal | undefined;
}

async function verifyFile(
  held: HeldImage,
  manifest: Manifest,
  { file, recorded, signal }: FileToVerify,
): Promise<{ fingerprint: Fingerprint; rehashed: boolean }> {
  const handle = await held.open(file.name).catch((error: unknown) => {
    throw errnoOf(error) === "ELOOP" ? lost(manifest, `its file ${file.name} is a symbolic link`) : error;
  });
  try {
    const stats = await handle.stat({ bigint: true });
    const fingerprint = fingerprintOf(stats);
    if (stats.size !== BigInt(file.sizeBytes)) {
      throw lost(
        manifest,
        `its file ${file.name} has ${stats.size.toString()} bytes, published were ${file.sizeBytes}`,
      );
    }
    if (sameFingerprint(fingerprint, recorded)) return { fingerprint, rehashed: false };
    const { digest } = await contentDigest(handle, signal);
    if (digest !== file.digest) throw lost(manifest, `its file ${file.name} was changed after publication`);
    return { fingerprint, rehashed: true };
  } finally {
    await handle.close();
  }
}

/** A folder of one restore's own, through which the files stay reachable whatever happens to the checkpoint. */
interface HeldImage {
  readonly path: string;
  /** Whether the store may be written: what was found out can then be recorded. */
  readonly writable: boolean;
  hold(from: string, name: string): Promise<void>;
  open(name: string): Promise<FileHandle>;
  release(): Promise<void>;
}

/** Hard links in `staging`: no lock, and a removal of the checkpoint takes only its own names. `undefined`: read-only. */
async function holdByLinks(layout: Layout, checkpointId: string): Promise<HeldImage | undefined> {
  const path = layout.stagingEntry(restorePrefix, checkpointId);
  const made = await unless(
    mkdir(path, { mode: 0o700 }).then(() => true),
    "EROFS",
    "EACCES",
    "EPERM",
  );
  if (made === undefined) return undefined;
  return {
    path,
    writable: true,
    hold: (from, name) => link(from, join(path, name)),
    open: (name) => open(join(path, name), constants.O_RDONLY | constants.O_NOFOLLOW),
    release: () => rm(path, { recursive: true, force: true }),
  };
}

/** Where nothing can be linked, open files keep the content alive, and links to them give gVisor names to open. */
async function holdByHandles(scratchPath: string): Promise<HeldImage> {
  const path = await mkdtemp(join(scratchPath, "ramet-restore-"));
  const handles: FileHandle[] = [];
  return {
    path,
    writable: false,
    hold: async (from, name) => {
      const handle = await open(from, constants.O_RDONLY | constants.O_NOFOLLOW);
      handles.push(handle);
      await symlink(`/proc/${process.pid}/fd/${handle.fd}`, join(path, name));
    },
    open: (name) => open(join(path, name), constants.O_RDONLY),
    release: async () => {
      await rm(path, { recursive: true, force: true });
      await Promise.all(handles.splice(0).map((handle) => handle.close()));
    },
  };
}
