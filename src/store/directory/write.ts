import { constants } from "node:fs";
import { mkdir, open, rename, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { DirectoryGrant } from "../../api/wire/grant.ts";
import { phaseTimer, systemClock } from "../../base/clock.ts";
import { checkGrant } from "../checkpoint-id.ts";
import {
  type ManifestDraft,
  type ManifestFile,
  encodeManifest,
  imageFiles,
  invalidFile,
  manifestFrom,
  sizeOf,
  splitOf,
} from "../manifest.ts";
import type { OpenForWriteOptions, Publication, PublishedCheckpoint, Step, WriteSession } from "../sessions.ts";
import { alreadyPublished, guarded } from "../store-error.ts";
import {
  type Fingerprints,
  contentDigest,
  fingerprintOf,
  keepContent,
  sameFingerprint,
  writeFingerprints,
} from "./content.ts";
import { statOf, succeeds, syncDirectories, writeDurably } from "./durable.ts";
import { type CheckpointLayout, type Layout, checkpointLayout } from "./layout.ts";
import { findPublished, openNamespaceDirectory } from "./namespace-directory.ts";

/** Implements `openForWrite` for a directory store. */
export async function openDirectoryForWrite(
  grant: DirectoryGrant,
  options: OpenForWriteOptions,
): Promise<WriteSession> {
  const { clock = systemClock } = options;
  const what = `opening checkpoint ${grant.checkpointId} for writing`;
  checkGrant(grant, "write", clock);
  return guarded(what, async () => {
    const layout = await openNamespaceDirectory(grant);
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
 * The order makes the publication atomic: first the content becomes durable under the attempt's names, then the manifest, then
 * one rename of the directory publishes both. The rename fails if the id exists.
 */
async function publish(context: Attempt, draft: ManifestDraft): Promise<Publication> {
  const { layout, attempt, grant, step, signal } = context;
  const timer = phaseTimer();
  const sealed = await sealImage(attempt.image, draft, signal);
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
  await claimId(context, published);
  await step("renamed");
  await syncDirectories([layout.checkpoints, layout.staging]);
  timer.end("rename");
  await step("published");
  return { ...published, sharedBytes, phases: timer.phases };
}

/** Publishes the checkpoint atomically. Retries only if a concurrent removal freed the id. */
async function claimId({ layout, attempt, grant }: Attempt, published: PublishedCheckpoint): Promise<void> {
  for (let attempts = 3; attempts > 0; attempts -= 1) {
    const renamed = rename(attempt.path, layout.checkpoint(grant.checkpointId).path);
    if (await succeeds(renamed, "ENOTEMPTY", "EEXIST")) return;
    const existing = await findPublished(layout, grant);
    if (existing === undefined) continue;
    if (existing.manifestDigest !== published.manifestDigest) throw alreadyPublished(grant, existing.manifestDigest);
    await rm(attempt.path, { recursive: true, force: true });
    return;
  }
  throw alreadyPublished(grant, "of a concurrent attempt");
}

/**
 * Hashes all files in parallel and makes them durable and read-only. The disk writes while the processor hashes.
 * @throws RametError `InvalidArgument` for an entry that is not a regular file
 */
async function sealImage(imagePath: string, draft: ManifestDraft, signal?: AbortSignal) {
  const names = await imageFiles(imagePath);
  const files = await Promise.all(
    names.map((name) => sealFile(join(imagePath, name), { name, splitAt: splitOf(name, draft), signal })),
  );
  return {
    files,
    /** Reads the current fingerprints. Call it after equal content has been linked. */
    fingerprints: async (): Promise<Fingerprints> => {
      const pairs = files.map(async ({ name }) => {
        const stats = await statOf(join(imagePath, name));
        if (stats === undefined) throw invalidFile(name, "it disappeared");
        return [name, fingerprintOf(stats)] as const;
      });
      return Object.fromEntries(await Promise.all(pairs));
    },
  };
}

async function sealFile(
  path: string,
  { name, splitAt, signal }: { name: string; splitAt: number | undefined; signal: AbortSignal | undefined },
): Promise<ManifestFile> {
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW);
  try {
    await file.chmod(0o400);
    const before = fingerprintOf(await file.stat({ bigint: true }));
    // allSettled, because the file must stay open until both operations have ended.
    const [hashed, synced] = await Promise.allSettled([contentDigest(file, signal, splitAt), file.sync()]);
    if (hashed.status === "rejected") throw hashed.reason;
    if (synced.status === "rejected") throw synced.reason;
    const after = fingerprintOf(await file.stat({ bigint: true }));
    if (!sameFingerprint(before, after)) throw invalidFile(name, "another process is still writing to it");
    return { name, ...hashed.value };
  } finally {
    await file.close();
  }
}
