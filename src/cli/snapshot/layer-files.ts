import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { join } from "node:path";
import { Parser, type ReadEntry } from "tar";
import type { LayerRef } from "../../api/wire/grant.ts";
import { defined } from "../../base/defined.ts";
import { RametError } from "../../base/errors.ts";
import { jsonValue } from "../../base/canonical-json.ts";
import type { CheckpointStore } from "../../store/checkpoint-store.ts";
import { layerFile } from "../../store/manifest.ts";
import { openForRead } from "../../store/open.ts";
import * as z from "zod";

/** A changed path of a layer. */
export interface LayerEntry {
  sizeBytes: number;
  /** Equal for entries of equal type, mode, owner, target and content. */
  id: string;
  /** The package of npm whose package.json it is. */
  npm?: { name: string; version: string };
}

/** What one layer changes. */
export interface LayerFiles {
  entries: Map<string, LayerEntry>;
  /** Paths that the layer deletes. */
  deleted: Set<string>;
  /** dpkg's list, if the layer has it: versions by name. */
  dpkg?: Map<string, string>;
}

/** Limits of what is read. */
export interface LayerLimits {
  bytes: number;
  entries: number;
}

/** The entries are those of all layers that are compared. */
export const layerLimits: LayerLimits = { bytes: 4 * 1024 ** 3, entries: 500_000 };

const dpkgStatus = "var/lib/dpkg/status";
const mostListBytes = 16 * 1024 ** 2;
const mostManifestBytes = 64 * 1024;
const mostMetaBytes = 1024 ** 2;
const whiteout = ".wh.";
/** Bounds what the parents of a path cost. */
const mostParts = 64;
const grantMilliseconds = 600_000;

/**
 * Reads a layer from a store. Its content comes from a sandbox: it is never unpacked, and what cannot be read is no error of its own.
 * @throws RametError those of the store; `CheckpointTooLarge` above a limit; `KeyUnavailable` if it is encrypted; `InvalidArgument`
 */
export async function readLayer(
  store: CheckpointStore,
  { namespace, ref }: { namespace: string; ref: LayerRef },
  { signal, limits = layerLimits }: { signal: AbortSignal; limits?: LayerLimits },
): Promise<LayerFiles> {
  const { checkpointId, manifestDigest, sizeBytes } = ref;
  if (sizeBytes > limits.bytes) throw tooLarge(`it has more than ${limits.bytes} bytes`);
  const grant = await store.grantRead({ namespace, checkpointId, manifestDigest, ttlMilliseconds: grantMilliseconds });
  const session = await openForRead(grant, { signal });
  try {
    return await filesIn(createReadStream(join(session.imagePath, layerFile), { signal }), limits);
  } finally {
    await session.release();
  }
}

/** Reads an archive in the format of tar, without compression. */
export async function filesIn(archive: AsyncIterable<Buffer>, limits: LayerLimits = layerLimits): Promise<LayerFiles> {
  const files: LayerFiles = { entries: new Map(), deleted: new Set() };
  let problem: RametError | undefined;
  let count = 0;
  const parser = new Parser({
    strict: true,
    maxMetaEntrySize: mostMetaBytes,
    onReadEntry: (entry) => {
      if (++count > limits.entries) problem ??= tooLarge(`it has more than ${limits.entries} entries`);
      if (entry.path.split("/").length > mostParts) problem ??= tooLarge(`a path has more than ${mostParts} parts`);
      if (problem === undefined) add(files, entry);
      else entry.resume();
    },
  });
  parser.on("error", (error: Error) => (problem ??= invalid(error.message)));
  let bytes = 0;
  for await (const chunk of archive) {
    // The parser would decompress another format, whose size nobody limits.
    if (bytes === 0 && chunk.subarray(257, 262).toString("latin1") !== "ustar" && chunk.some((byte) => byte !== 0))
      throw invalid("its format is not tar");
    bytes += chunk.length;
    if (bytes > limits.bytes) throw tooLarge(`it has more than ${limits.bytes} bytes`);
    parser.write(chunk);
    if (problem !== undefined) throw problem;
  }
  parser.end();
  if (problem !== undefined) throw problem;
  return files;
}

function add(files: LayerFiles, read: ReadEntry): void {
  const path = read.path.replace(/^(\.?\/)+/, "").replace(/\/+$/, "");
  const slash = path.lastIndexOf("/") + 1;
  const [parent, base] = [path.slice(0, slash), path.slice(slash)];
  if (base.startsWith(whiteout)) {
    files.deleted.add(parent + base.slice(whiteout.length));
    read.resume();
    return;
  }
  const { type, mode = 0, uid = 0, gid = 0, linkpath = "", size } = read;
  const hash = createHash("sha256").update(JSON.stringify([type, mode, uid, gid, linkpath]));
  const isManifest = /(^|\/)node_modules\/(@[^/]+\/)?[^/@][^/]*\/package\.json$/.test(path);
  const mostKept = path === dpkgStatus ? mostListBytes : isManifest ? mostManifestBytes : 0;
  const kept: Buffer[] = [];
  read.on("data", (chunk: Buffer) => {
    hash.update(chunk);
    if (size <= mostKept) kept.push(chunk);
  });
  read.on("end", () => {
    const text = Buffer.concat(kept).toString("utf8");
    if (path === dpkgStatus) files.dpkg = dpkgPackages(text);
    const npm = isManifest ? NpmManifest.safeParse(jsonValue(text)).data : undefined;
    const entry = { sizeBytes: size, id: hash.digest("base64"), ...defined({ npm }) };
    // A directory is listed for the files in it.
    if (type !== "Directory" && !ofIdentity.has(path)) files.entries.set(path, entry);
  });
}

/** Each sandbox gets its own, also that of a build. */
const ofIdentity = new Set(["etc/hostname", "etc/hosts"]);

const NpmManifest = z.object({ name: z.string().min(1).max(214), version: z.string().min(1).max(256) });

function dpkgPackages(text: string): Map<string, string> {
  const packages = new Map<string, string>();
  for (const paragraph of text.split(/\n\n+/)) {
    const field = (name: string) => new RegExp(`^${name}: *(.{1,256})$`, "m").exec(paragraph)?.[1];
    const [name, version] = [field("Package"), field("Version")];
    if (name === undefined || version === undefined) continue;
    if (field("Status")?.endsWith(" installed") === true)
      packages.set(`${name}:${field("Architecture") ?? ""}`, version);
  }
  return packages;
}

/** The file that pip has for each package. */
export const pipMetadata = "METADATA";

/** The package of pip whose metadata has a path. */
export function pipPackage(path: string): { name: string; version: string } | undefined {
  const [, name, version] = /(?:^|\/)([^/]{1,200})-([^/-]{1,100})\.dist-info\/METADATA$/.exec(path) ?? [];
  return name === undefined || version === undefined ? undefined : { name, version };
}

function tooLarge(why: string): RametError {
  return new RametError("CheckpointTooLarge", `The layer is not compared: ${why}`);
}

function invalid(why: string): RametError {
  return new RametError("InvalidArgument", `The layer cannot be read: ${why}`);
}
