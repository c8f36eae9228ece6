import { randomUUID } from "node:crypto";
import { lstat, mkdir, readdir, rename, rm, stat, utimes } from "node:fs/promises";
import { basename, join } from "node:path";
import * as z from "zod";
import type { LayerRef } from "../../api/wire/grant.ts";
import { jsonValue } from "../../base/canonical-json.ts";
import { RametError } from "../../base/errors.ts";
import { runProgram } from "../../base/run-program.ts";
import { ifPresent, unless } from "../../store/directory/durable.ts";
import { layerFile } from "../../store/manifest.ts";
import type { ReadSession, SharedEntry } from "../../store/sessions.ts";
import type { UnpackedLayer } from "../sandbox/sandbox.ts";
import type { CellPaths } from "../setting/cell-setting.ts";
import { type NodeCache, removeTree } from "./node-cache.ts";

/** The slowest disk on which a layer is unpacked. */
const leastBytesPerMillisecond = 10 * 1024;
const leastMilliseconds = 60_000;

const Failure = z.object({ message: z.string(), errno: z.string().optional(), damaged: z.boolean().optional() });

/** The layers, if all of them are unpacked on this node. */
export async function cachedLayers(
  refs: readonly LayerRef[],
  paths: Pick<CellPaths, "layers">,
  cache?: NodeCache,
): Promise<UnpackedLayer[] | undefined> {
  const all = refs.map(async (ref) => {
    const shared = await cache?.keep(sharedLayer(ref));
    return shared === undefined
      ? reuse(ref, layerPath(ref, paths))
      : unpacked(ref, layerPath(ref, { layers: shared.path }));
  });
  return Promise.all(all).catch(() => undefined);
}

/**
 * Provides a layer on this node. Of several cells that need it at the same time, one unpacks it and the others wait. A cell keeps a
 * layer in the node's cache until `keepOnlyLayers`, or until it ends.
 * @param open opens the checkpoint of a layer that is not unpacked yet
 * @throws RametError `CheckpointLost` if the layer is damaged; `StoreFull` or `Unavailable` if this node cannot hold it; those of `open`
 */
export async function provideLayer(
  ref: LayerRef,
  { layers, link }: Pick<CellPaths, "layers" | "link">,
  open: () => Promise<Pick<ReadSession, "imagePath" | "release">>,
  cache?: NodeCache,
): Promise<UnpackedLayer> {
  const fill = async (directory: string): Promise<void> => {
    await provideLayer(ref, { layers: directory, link }, open);
  };
  const shared = await cache?.keep({ ...sharedLayer(ref), fill });
  if (shared !== undefined) return unpacked(ref, layerPath(ref, { layers: shared.path }));
  const path = layerPath(ref, { layers });
  const found = await reuse(ref, path).catch(() => undefined);
  if (found !== undefined) return found;
  await mkdir(layers, { recursive: true, mode: 0o700 });
  const { imagePath, release } = await open();
  try {
    await unpack(ref, { link, file: join(imagePath, layerFile), path });
  } finally {
    await release();
  }
  return unpacked(ref, path);
}

interface LayerUse {
  paths: Pick<CellPaths, "layers" | "link" | "sharesLayers">;
  cache: NodeCache | undefined;
  report: (message: string, detail: Record<string, unknown>) => void;
}

/**
 * Ends the use of all other layers, which a sandbox that was replaced had: the node's cache may remove them, and those that only this cell
 * has are removed. Never fails.
 */
export async function keepOnlyLayers(layers: readonly LayerRef[], { paths, cache, report }: LayerUse): Promise<void> {
  const failed = (error: unknown): void => {
    report("a layer that is not used any more was not removed", { message: RametError.from(error).message });
  };
  await cache?.keepOnly(layers.map((ref) => sharedLayer(ref).name)).catch(failed);
  if (paths.sharesLayers) return;
  const kept = layers.map((ref) => basename(layerPath(ref, paths)));
  try {
    for (const name of (await ifPresent(readdir(paths.layers))) ?? [])
      if (!kept.includes(name.replace(/\.lock$/, ""))) await discard(join(paths.layers, name), paths.link, failed);
  } catch (error) {
    failed(error);
  }
}

/** Nothing waits for the removal of many files: a later use unpacks the layer again under its name. */
async function discard(path: string, link: string, failed: (error: unknown) => void): Promise<void> {
  if (path.endsWith(".lock")) return rm(path, { force: true });
  const dropped = path.endsWith(dropSuffix) ? path : `${path}.${randomUUID()}${dropSuffix}`;
  if (dropped !== path) await rename(path, dropped);
  removeTree(dropped, link, 10 * leastMilliseconds).catch(failed);
}

const dropSuffix = ".dropped";

/** A layer in the node's cache. What is in its directory is not compared. */
function sharedLayer(ref: LayerRef): SharedEntry {
  return {
    name: `layer-${ref.manifestDigest.slice("sha256:".length)}`,
    sizeBytes: ref.sizeBytes,
    // Its tar, which is downloaded first.
    scratchBytes: ref.sizeBytes,
    isIntact: (directory) =>
      lstat(layerPath(ref, { layers: directory })).then(
        (found) => found.isDirectory(),
        () => false,
      ),
  };
}

/** Its name tells the node whether anything needs it, and that it has this content. */
function layerPath({ checkpointId, manifestDigest }: LayerRef, { layers }: Pick<CellPaths, "layers">): string {
  return join(layers, `${checkpointId}.${manifestDigest.slice("sha256:".length)}`);
}

/** Layers that nothing uses for a while are removed. This one is used now. */
async function reuse(ref: LayerRef, path: string): Promise<UnpackedLayer> {
  const now = new Date();
  // Nothing is removed from a read-only file system either.
  await unless(utimes(`${path}.lock`, now, now), "EROFS");
  return unpacked(ref, path);
}

async function unpacked(ref: LayerRef, path: string): Promise<UnpackedLayer> {
  const { ino } = await stat(path);
  return { ...ref, path, inode: ino };
}

async function unpack(
  { sizeBytes }: LayerRef,
  { link, file, path }: { link: string; file: string; path: string },
): Promise<void> {
  const { code, stdout, stderr } = await runProgram({
    program: link,
    args: ["layer", file, path],
    what: "unpacking a layer",
    timeoutMilliseconds: leastMilliseconds + sizeBytes / leastBytesPerMillisecond,
  });
  if (code !== 0) throw unpackFailure(stdout, stderr);
}

/** The error for what `ramet-link layer` printed. A program that was ended prints nothing, which says nothing about the layer. */
export function unpackFailure(stdout: string, stderr: string): RametError {
  const { message, errno, damaged } = Failure.safeParse(jsonValue(stdout)).data ?? { message: stderr.trim() };
  if (damaged === true) return new RametError("CheckpointLost", `unpacking a layer failed: ${message}`);
  // The store is not full: a layer is unpacked on the node.
  const isFull = errno === "ENOSPC" || errno === "EDQUOT";
  return new RametError(isFull ? "StoreFull" : "Unavailable", `unpacking a layer failed: ${message}`, {
    hint: isFull ? nodeSpaceHint : undefined,
  });
}

const nodeSpaceHint = "Free space on the node's disk, or give the sandbox's Pod more ephemeral storage";
