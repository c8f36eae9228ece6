import { decodeManifest, digestOf, lost, parseManifest, sizeOf, type Manifest } from "../manifest.ts";
import type { CheckpointRef } from "../checkpoint-id.ts";
import type { PublishedCheckpoint } from "../sessions.ts";
import { readSmallFile, unless } from "./durable.ts";
import type { Layout } from "./layout.ts";

const maximumManifestBytes = 4 << 20;

/** Finds the checkpoint that is published under an id. */
export async function findPublished(layout: Layout, ref: CheckpointRef): Promise<PublishedCheckpoint | undefined> {
  const bytes = await manifestBytes(layout, ref);
  if (bytes === undefined) return undefined;
  return { manifestDigest: digestOf(bytes), sizeBytes: sizeOf(parseManifest(bytes, ref)) };
}

/** Reads the manifest with this digest. @throws RametError `CheckpointLost`, `CheckpointTooNew` */
export async function publishedManifest(layout: Layout, ref: CheckpointRef, digest: string): Promise<Manifest> {
  const bytes = await manifestBytes(layout, ref);
  if (bytes === undefined) throw lost(ref, "it is not in the store");
  return decodeManifest(bytes, ref, digest);
}

/** Reads the manifest without verifying its digest, for sweeps and scrubs. */
export async function unverifiedManifest(layout: Layout, ref: CheckpointRef): Promise<Manifest | undefined> {
  const bytes = await manifestBytes(layout, ref);
  return bytes === undefined ? undefined : parseManifest(bytes, ref);
}

async function manifestBytes(layout: Layout, ref: CheckpointRef): Promise<Buffer | undefined> {
  return unless(readSmallFile(layout.checkpoint(ref.checkpointId).manifest, maximumManifestBytes), "ENOTDIR");
}
