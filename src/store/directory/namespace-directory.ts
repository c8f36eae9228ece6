import { chmod, link, mkdir, readdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import * as z from "zod";
import type { DirectoryGrant } from "../../api/wire/grant.ts";
import { canonicalJson } from "../../base/canonical-json.ts";
import { type CheckpointRef, NamespaceName, invalidGrant } from "../checkpoint-id.ts";
import { type Removal, ownerFile } from "../checkpoint-store.ts";
import { type Manifest, decodeManifest, digestOf, lost, parseManifest, sizeOf } from "../manifest.ts";
import type { PublishedCheckpoint, Step } from "../sessions.ts";
import { collectContent } from "./content.ts";
import {
  bytesOf,
  filesBelow,
  readSmallFile,
  statOf,
  succeeds,
  syncDirectories,
  unless,
  writeDurably,
} from "./durable.ts";
import { type Layout, doomedPrefix, layoutOf, probePrefix, requireRoot, unusable } from "./layout.ts";

const Marker = z.object({ v: z.literal(1), namespace: z.string() });

/** Creates the directory of a namespace if necessary. Does not create the root: its disk could be unmounted. */
export async function makeNamespaceDirectory(root: string, path: string, namespace: string): Promise<Layout> {
  const layout = layoutOf(path);
  if ((await readMarker(layout)) === namespace) return layout;
  await unless(mkdir(path, { mode: 0o700 }), "EEXIST");
  await requireDirectories(path);
  for (const directory of [layout.contentDirectory, layout.checkpoints, layout.staging]) {
    await mkdir(directory, { recursive: true, mode: 0o700 });
  }
  await chmod(path, 0o700);
  const draft = layout.stagingEntry(doomedPrefix);
  await writeDurably(draft, Buffer.from(canonicalJson({ v: 1, namespace })));
  await unless(link(draft, layout.marker), "EEXIST");
  await rm(draft, { force: true });
  await syncDirectories([path, root]);
  return layout;
}

/**
 * Opens the directory of a grant. Verifies that it belongs to the namespace and contains no symbolic link to another place.
 * @throws RametError `StoreUnavailable`, `GrantInvalid`
 */
export async function openNamespaceDirectory(grant: DirectoryGrant): Promise<Layout> {
  if (!grant.path.startsWith("/") || grant.path.split("/").includes("..")) {
    throw invalidGrant(grant, `its path ${grant.path} is not absolute or contains ".."`);
  }
  const layout = layoutOf(grant.path);
  const directories = requireDirectories(layout.path, layout.contentDirectory, layout.checkpoints, layout.staging);
  // An error from the marker takes precedence.
  directories.catch(() => undefined);
  const namespace = await readMarker(layout);
  if (namespace === undefined) {
    throw unusable(
      grant.path,
      "it is not the directory of a namespace",
      "Check that the store is mounted at this path",
    );
  }
  if (namespace !== grant.namespace) throw invalidGrant(grant, `${grant.path} belongs to namespace ${namespace}`);
  await directories;
  return layout;
}

/** Returns the namespace of a directory according to its marker. */
export async function namespaceOf(path: string): Promise<string | undefined> {
  return readMarker(layoutOf(path));
}

/** Throws unless each path is a directory and not a link. */
export async function requireDirectories(...paths: string[]): Promise<void> {
  const all = await Promise.all(paths.map(async (path) => ({ path, stats: await statOf(path) })));
  for (const { path, stats } of all) {
    if (stats?.isDirectory() === true) continue;
    const why = stats === undefined ? "it is missing" : "it is not a directory";
    throw unusable(path, why, "Check that the store's directory exists and its file system is mounted");
  }
}

async function readMarker(layout: Layout): Promise<string | undefined> {
  const bytes = await unless(readSmallFile(layout.marker, 4096), "ENOTDIR", "ELOOP");
  if (bytes === undefined) return undefined;
  try {
    return Marker.parse(JSON.parse(bytes.toString("utf8"))).namespace;
  } catch (error) {
    const hint = 'Restore the file: {"v":1,"namespace":"<name of the directory>"}';
    throw unusable(layout.path, "namespace.json is not valid", hint, error);
  }
}

interface Namespaces {
  found: { namespace: string; layout: Layout }[];
  /** Paths in the root that are not the directory of a namespace. */
  foreign: string[];
  /** Files of probes: a probe removes its own, unless its process ends before. */
  probes: string[];
}

/** Lists all namespaces in a store by their markers. */
export async function namespacesIn(root: string): Promise<Namespaces> {
  await requireRoot(root);
  const namespaces: Namespaces = { found: [], foreign: [], probes: [] };
  for (const entry of await readdir(root, { withFileTypes: true })) {
    if (entry.name === ownerFile) continue;
    const path = join(root, entry.name);
    if (entry.name.startsWith(probePrefix)) {
      namespaces.probes.push(path);
      continue;
    }
    const isNamespace = entry.isDirectory() && NamespaceName.safeParse(entry.name).success;
    if (!isNamespace || (await namespaceOf(path)) !== entry.name) {
      // A node mounts an empty directory in cells of a namespace that has no checkpoint yet.
      if (!isNamespace || (await readdir(path)).length > 0) namespaces.foreign.push(path);
      continue;
    }
    const layout = layoutOf(path);
    await requireDirectories(layout.contentDirectory, layout.checkpoints, layout.staging);
    namespaces.found.push({ namespace: entry.name, layout });
  }
  return namespaces;
}

const maximumManifestBytes = 4 << 20;

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

/**
 * Removes a checkpoint atomically by one rename, then frees its unshared content. A crash after the rename leaves an orphan,
 * which a sweep removes.
 */
export async function removeCheckpoint(layout: Layout, ref: CheckpointRef, step: Step): Promise<Removal> {
  // The manifest only tells which content may be unused now. A sweep finds the rest.
  const manifest = await unverifiedManifest(layout, ref).catch(() => undefined);
  const doomed = await doom(layout, layout.checkpoint(ref.checkpointId).path);
  if (doomed === undefined) return { removed: false, freedBytes: 0 };
  await step("doomed");
  await syncDirectories([layout.checkpoints]);
  let freedBytes = await removeOrphan(doomed);
  await step("orphan-removed");
  const digests = new Set(manifest?.files.map((file) => file.digest));
  for (const digest of digests) freedBytes += await collectContent(layout, digest, step);
  return { removed: true, freedBytes };
}

/** Renames a path so that it cannot be found any more and can be removed later. `undefined`: it does not exist. */
export async function doom(layout: Layout, path: string): Promise<string | undefined> {
  const doomed = layout.stagingEntry(doomedPrefix);
  return (await succeeds(rename(path, doomed), "ENOENT")) ? doomed : undefined;
}

/** Removes an entry of `staging` without following links. @returns the number of freed bytes */
export async function removeOrphan(path: string): Promise<number> {
  const freedBytes = bytesOf((await filesBelow(path)).filter(({ nlink }) => nlink === 1n));
  await rm(path, { recursive: true, force: true });
  return freedBytes;
}
