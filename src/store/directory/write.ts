import { constants } from "node:fs";
import { mkdir, open, rename, rm, statfs } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { DirectoryGrant } from "../../api/cell/grant.ts";
import { systemClock } from "../../base/clock.ts";
import { RametError } from "../../base/errors.ts";
import { phaseTimer } from "../../base/phases.ts";
import { contentDigest } from "../content-digest.ts";
import { checkGrant } from "../grant-check.ts";
import {
  encodeManifest,
  illegalFile,
  imageFiles,
  type ManifestDraft,
  type ManifestFile,
  manifestFrom,
  sizeOf,
} from "../manifest.ts";
import type { OpenForWriteOptions, Publication, PublishedCheckpoint, Step, WriteSession } from "../sessions.ts";
import { alreadyPublished, guarded, roomHint } from "../store-error.ts";
import { keepContent } from "./content.ts";
import { statOf, syncDirectories, unless, writeDurably } from "./durable.ts";
import { fingerprintOf, type Fingerprints, sameFingerprint, writeFingerprints } from "./fingerprints.ts";
import { checkpointLayout, type CheckpointLayout, type Layout } from "./layout.ts";
import { openNamespaceDirectory } from "./namespace-directory.ts";
import { findPublished } from "./published.ts";

/** The cell's side of a publication; `openForWrite` says what it promises. */
export async function openDirectoryForWrite(
  grant: DirectoryGrant,
  options: OpenForWriteOptions,
): Promise<WriteSession> {
  const { clock = systemClock } = options;
  const what = `opening checkpoint ${grant.checkpointId} for writing`;
  checkGrant(grant, "write", clock);
  return guarded(what, async () => {
    const layout = await openNamespaceDirectory(grant);
    await requireRoom(layout, grant, options.expectedBytes ?? 0);
    const attempt = checkpointLayout(layout.stagingEntry(grant.checkpointId));
    await mkdir(attempt.path, { mode: 0o700 });
    await mkdir(attempt.image, { mode: 0o700 });
    await options.onStep?.("staged");
    return {
      stagingPath: attempt.image,
      published: await findPublished(layout, grant),
      publish: async (draft, signal) => {
        checkGrant(grant, "write", clock);
        return guarded(`publishing checkpoint ${grant.checkpointId}`, () =>
          publish({ layout, attempt, grant, step: async (name) => options.onStep?.(name), signal }, draft),
        );
      },
      abandon: () =>
        guarded(`abandoning checkpoint ${grant.checkpointId}`, () =>
          rm(attempt.path, { recursive: true, force: true }),
        ),
    };
  });
}

interface Attempt {
  layout: Layout;
  attempt: CheckpointLayout;
  grant: DirectoryGrant;
  step: Step;
  signal: AbortSignal | undefined;
}

/**
 * The order is what makes it whole or nothing: content durable under the attempt's own names, then the manifest beside
 * it, then one rename of the folder, which fails if the id is taken.
 */
async function publish(context: Attempt, draft: ManifestDraft): Promise<Publication> {
  const { layout, attempt, grant, step, signal } = context;
  const timer = phaseTimer();
  const sealed = await sealImage(attempt.image, signal);
  timer.end("hash");
  await step("sealed");

  const directories = new Set([layout.contentDirectory, attempt.image, attempt.path]);
  let sharedBytes = 0;
  for (const file of sealed.files) {
    const shared = await keepContent(layout, attempt, file);
    if (shared) sharedBytes += file.sizeBytes;
    directories.add(dirname(layout.content(file.digest)));
    await step("content");
  }
  timer.end("content");

  const ref = { namespace: grant.namespace, checkpointId: grant.checkpointId };
  const manifest = manifestFrom(ref, sealed.files, draft);
  const { bytes, digest } = encodeManifest(manifest);
  await writeFingerprints(attempt, join(attempt.path, "fingerprints.draft"), await sealed.fingerprints());
  await writeDurably(attempt.manifest, bytes);
  await step("manifest");
  await syncDirectories(directories);
  timer.end("manifest");
  await step("synced");

  signal?.throwIfAborted();
  const published = { manifestDigest: digest, sizeBytes: sizeOf(manifest) };
  await takeId(context, published);
  await step("renamed");
  await syncDirectories([layout.checkpoints, layout.staging]);
  timer.end("rename");
  await step("published");
  return { ...published, sharedBytes, phases: timer.phases };
}

/** The one instant at which the checkpoint comes to be. Only a removal at the same time makes a second try worthwhile. */
async function takeId({ layout, attempt, grant }: Attempt, published: PublishedCheckpoint): Promise<void> {
  for (let tries = 3; tries > 0; tries -= 1) {
    const renamed = rename(attempt.path, layout.checkpoint(grant.checkpointId).path).then(() => true);
    if ((await unless(renamed, "ENOTEMPTY", "EEXIST")) === true) return;
    const former = await findPublished(layout, grant);
    if (former === undefined) continue;
    if (former.manifestDigest !== published.manifestDigest) throw alreadyPublished(grant, former.manifestDigest);
    await rm(attempt.path, { recursive: true, force: true });
    return;
  }
  throw alreadyPublished(grant, "that is missing");
}

async function requireRoom(layout: Layout, grant: DirectoryGrant, expectedBytes: number): Promise<void> {
  if (expectedBytes === 0) return;
  const { bavail, bsize } = await statfs(layout.staging);
  if (bavail * bsize >= expectedBytes) return;
  throw new RametError(
    "StoreFull",
    `opening checkpoint ${grant.checkpointId} for writing: the store has ${bavail * bsize} bytes left, needed are about ${expectedBytes}`,
    { hint: roomHint },
  );
}

interface SealedImage {
  files: ManifestFile[];
  /** As they are now: to be taken after equal content has been put together. */
  fingerprints(): Promise<Fingerprints>;
}

/**
 * Hashes what gVisor has written and makes it durable and read-only, all files at once: the disk writes while the
 * processor hashes. `InvalidArgument` for anything that is not a plain file.
 */
async function sealImage(imagePath: string, signal?: AbortSignal): Promise<SealedImage> {
  const names = await imageFiles(imagePath);
  const files = await Promise.all(names.map((name) => sealFile(imagePath, name, signal)));
  return {
    files,
    fingerprints: async () => {
      const pairs = files.map(async ({ name }) => {
        const stats = await statOf(join(imagePath, name));
        if (stats === undefined) throw illegalFile(name, "it went away");
        return [name, fingerprintOf(stats)] as const;
      });
      return Object.fromEntries(await Promise.all(pairs));
    },
  };
}

async function sealFile(directory: string, name: string, signal?: AbortSignal): Promise<ManifestFile> {
  const file = await open(join(directory, name), constants.O_RDONLY | constants.O_NOFOLLOW);
  try {
    await file.chmod(0o400);
    const before = fingerprintOf(await file.stat({ bigint: true }));
    // Settled, not all: the file must not be closed while the other of the two still uses it.
    const [hashed, synced] = await Promise.allSettled([contentDigest(file, signal), file.sync()]);
    if (hashed.status === "rejected") throw hashed.reason;
    if (synced.status === "rejected") throw synced.reason;
    const after = fingerprintOf(await file.stat({ bigint: true }));
    if (!sameFingerprint(before, after)) throw illegalFile(name, "somebody still writes to it");
    return { name, ...hashed.value };
  } finally {
    await file.close();
  }
}
