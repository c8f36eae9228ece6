import { constants } from "node:fs";
import { type FileHandle, link, mkdir, mkdtemp, open, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { DirectoryGrant } from "../../api/wire/grant.ts";
import { systemClock } from "../../base/clock.ts";
import { errnoOf } from "../../base/errors.ts";
import { checkGrant, invalidGrant } from "../checkpoint-id.ts";
import { type Manifest, type ManifestFile, lost } from "../manifest.ts";
import type { OpenForReadOptions, ReadSession } from "../sessions.ts";
import { storeError } from "../store-error.ts";
import {
  type Fingerprint,
  type Fingerprints,
  contentDigest,
  fingerprintOf,
  readFingerprints,
  sameFingerprint,
  writeFingerprints,
} from "./content.ts";
import { succeeds } from "./durable.ts";
import { type Layout, doomedPrefix, restorePrefix } from "./layout.ts";
import { openNamespaceDirectory, publishedManifest } from "./namespace-directory.ts";

/** Implements `openForRead` for a directory store. */
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
  if (grant.manifestDigest === undefined) throw invalidGrant(grant, "it does not name a manifest");
  const fingerprints =
    grant.verify === true ? Promise.resolve<Fingerprints>({}) : readFingerprints(layout.checkpoint(grant.checkpointId));
  const manifest = await publishedManifest(layout, grant, grant.manifestDigest);
  await options.onStep?.("manifest");
  await Promise.all(manifest.files.map((file) => holdFile(layout, held, grant, file)));
  await options.onStep?.("held");
  const rehashed = await verifyImage(layout, held, manifest, { recorded: await fingerprints, signal: options.signal });
  return { manifest, imagePath: held.path, rehashed, release: () => held.release() };
}

/** Uses the checkpoint's own link, or the shared content, which is the same file, if that link is missing. */
async function holdFile(layout: Layout, held: HeldImage, grant: DirectoryGrant, file: ManifestFile): Promise<void> {
  const own = join(layout.checkpoint(grant.checkpointId).image, file.name);
  for (const source of [own, layout.content(file.digest)]) {
    if (await succeeds(held.hold(source, file.name), "ENOENT", "ENOTDIR", "ELOOP", "EMLINK")) return;
  }
  throw lost(grant, `its file ${file.name} is not in the store`);
}

/**
 * Compares the files with their recorded fingerprints, hashes those that differ, and records the new fingerprints for the next
 * restore.
 * @returns the names of the hashed files
 * @throws RametError `CheckpointLost` if a file differs from the published one
 */
async function verifyImage(
  layout: Layout,
  held: HeldImage,
  manifest: Manifest,
  { recorded, signal }: { recorded: Fingerprints; signal: AbortSignal | undefined },
): Promise<string[]> {
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
    // The record only saves time, so a failure does not matter.
    const checkpoint = layout.checkpoint(manifest.checkpointId);
    await writeFingerprints(checkpoint, layout.stagingEntry(doomedPrefix), found).catch(() => undefined);
  }
  return rehashed.sort();
}

async function verifyFile(
  held: HeldImage,
  manifest: Manifest,
  {
    file,
    recorded,
    signal,
  }: { file: ManifestFile; recorded: Fingerprint | undefined; signal: AbortSignal | undefined },
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
        `its file ${file.name} has ${stats.size.toString()} bytes, but ${file.sizeBytes} were published`,
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

/** A directory of one restore that keeps the files reachable even if the checkpoint is removed. */
interface HeldImage {
  readonly path: string;
  /** Whether the store is writable, so that fingerprints can be recorded. */
  readonly writable: boolean;
  hold(from: string, name: string): Promise<void>;
  open(name: string): Promise<FileHandle>;
  release(): Promise<void>;
}

/** Uses hard links in `staging`. They need no lock: a removal deletes only the checkpoint's own links. `undefined`: read-only. */
async function holdByLinks(layout: Layout, checkpointId: string): Promise<HeldImage | undefined> {
  const path = layout.stagingEntry(restorePrefix, checkpointId);
  if (!(await succeeds(mkdir(path, { mode: 0o700 }), "EROFS", "EACCES", "EPERM"))) return undefined;
  return {
    path,
    writable: true,
    hold: (from, name) => link(from, join(path, name)),
    open: (name) => open(join(path, name), constants.O_RDONLY | constants.O_NOFOLLOW),
    release: () => rm(path, { recursive: true, force: true }),
  };
}

/** For a read-only store. Open files keep the content alive, and symbolic links to them give gVisor paths to open. */
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
