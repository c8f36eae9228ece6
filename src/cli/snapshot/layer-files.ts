import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { join } from "node:path";
import type { LayerRef } from "../../api/wire/grant.ts";
import { defined } from "../../base/defined.ts";
import { RametError } from "../../base/errors.ts";
import { jsonValue } from "../../base/canonical-json.ts";
import { shownName, type TarContent, type TarEntry, TarReader } from "../../base/tar-reader.ts";
import type { CheckpointStore } from "../../store/checkpoint-store.ts";
import { layerFile } from "../../store/manifest.ts";
import { openForRead } from "../../store/open.ts";
import * as z from "zod";

/** A changed file of a layer, or a link or pipe. */
export interface LayerEntry {
  sizeBytes: number;
  /** Equal for entries of equal type, mode, owner, target, attributes and content. */
  id: string;
  /** The package of npm whose package.json it is. */
  npm?: { name: string; version: string };
  /** The versions by name, if it is dpkg's list. */
  dpkg?: Map<string, string>;
}

/** What one layer changes. Each parent of a path is one of its directories. Paths have one character a byte (latin1). */
export interface LayerFiles {
  entries: Map<string, LayerEntry>;
  directories: Set<string>;
  /** Paths that the layer deletes. */
  deleted: Set<string>;
  textBytes: number;
}

/** Limits of what is read. */
export interface LayerLimits {
  bytes: number;
  entries: number;
  /** Of paths and of the names of packages. */
  textBytes: number;
}

/** Entries and texts are those of all layers that are compared. */
export const layerLimits: LayerLimits = { bytes: 4 * 1024 ** 3, entries: 500_000, textBytes: 64 * 1024 ** 2 };

export const dpkgStatus = "var/lib/dpkg/status";
const mostListBytes = 16 * 1024 ** 2;
const mostManifestBytes = 64 * 1024;
const mostHeaderBytes = 1024 ** 2;
const whiteout = ".wh.";
/** Bounds what the parents of a path cost. */
const mostParts = 64;
const mostPathBytes = 4096;
const grantMilliseconds = 600_000;

/**
 * Reads a layer from a store. Its content comes from a sandbox, so it is never unpacked.
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
  const files: LayerFiles = { entries: new Map(), directories: new Set(), deleted: new Set(), textBytes: 0 };
  const onEntry = (entry: TarEntry) => add(files, entry, limits);
  const reader = new TarReader({ onEntry, refuse: invalid, mostHeaderBytes });
  let bytes = 0;
  for await (const chunk of archive) {
    bytes += chunk.length;
    if (bytes > limits.bytes) throw tooLarge(`it has more than ${limits.bytes} bytes`);
    reader.write(chunk);
  }
  reader.end();
  return files;
}

function add(files: LayerFiles, read: TarEntry, limits: LayerLimits): TarContent | undefined {
  const path = read.path.replace(/\/$/, "");
  const slash = path.lastIndexOf("/") + 1;
  const base = path.slice(slash);
  const isWhiteout = base.startsWith(whiteout);
  const place = isWhiteout ? path.slice(0, slash) + base.slice(whiteout.length) : path;
  checkPlace(files, place);
  const count = files.entries.size + files.directories.size + files.deleted.size;
  if (count >= limits.entries) throw tooLarge(`the compared layers have more than ${layerLimits.entries} entries`);
  addText(files, place, limits);
  if (isWhiteout && read.type !== "0") throw invalid(`${shownName(path)} is no file`);
  if (!isWhiteout && read.type !== "5") return contentOf(files, { ...read, path }, limits);
  (isWhiteout ? files.deleted : files.directories).add(place);
  return undefined;
}

/** A layer with other paths is never mounted. */
function checkPlace({ entries, directories, deleted }: LayerFiles, path: string): void {
  if (path.length > mostPathBytes) throw tooLarge(`a path has more than ${mostPathBytes} bytes`);
  const parts = path.split("/", mostParts + 1);
  if (parts.length > mostParts) throw tooLarge(`a path has more than ${mostParts} parts`);
  if (parts.some((part) => part === "" || part === "." || part === ".." || part.startsWith(whiteout)))
    throw invalid(`${shownName(path)} is not a path below it`);
  if (entries.has(path) || directories.has(path) || deleted.has(path)) throw invalid(`it has ${shownName(path)} twice`);
  const parent = path.slice(0, Math.max(0, path.lastIndexOf("/")));
  if (parent !== "" && !directories.has(parent)) throw invalid(`it has no directory ${shownName(parent)}`);
}

function addText(files: LayerFiles, text: string, limits: LayerLimits): void {
  files.textBytes += text.length;
  if (files.textBytes > limits.textBytes)
    throw tooLarge(`the compared layers have more than ${layerLimits.textBytes} bytes of names`);
}

function contentOf(files: LayerFiles, read: TarEntry, limits: LayerLimits): TarContent {
  const { path, type, mode, uid, gid, linkPath, sizeBytes, records } = read;
  const attributes = [...records].filter(([key]) => !withoutMeaning.has(key)).sort(([a], [b]) => (a < b ? -1 : 1));
  const owner = [records.get("uid") ?? `${uid}`, records.get("gid") ?? `${gid}`];
  const hash = createHash("sha256").update(JSON.stringify([type, mode, owner, linkPath, attributes]));
  const isManifest = /(^|\/)node_modules\/(@[^/]+\/)?[^/@][^/]*\/package\.json$/.test(path);
  const mostKept = path === dpkgStatus ? mostListBytes : isManifest ? mostManifestBytes : 0;
  const kept: Buffer[] = [];
  const end = () => {
    const text = Buffer.concat(kept).toString("utf8");
    const dpkg = path === dpkgStatus ? dpkgPackages(text) : undefined;
    const npm = isManifest ? NpmManifest.safeParse(jsonValue(text)).data : undefined;
    for (const each of [...[...(dpkg ?? [])].flat(), npm?.name ?? "", npm?.version ?? ""]) addText(files, each, limits);
    files.entries.set(path, { sizeBytes, id: hash.digest("base64"), ...defined({ npm, dpkg }) });
  };
  return {
    add: (part) => {
      hash.update(part);
      if (sizeBytes <= mostKept) kept.push(part);
    },
    end,
  };
}

/** Records of PAX that an entry has in another form, or that are times. */
const withoutMeaning = new Set(["path", "linkpath", "size", "uid", "gid", "mtime", "atime", "ctime"]);

const NpmManifest = z.object({ name: z.string().min(1).max(214), version: z.string().min(1).max(256) });

function dpkgPackages(text: string): Map<string, string> {
  const packages = new Map<string, string>();
  let fields = new Map<string, string>();
  for (const line of linesOf(text)) {
    const colon = line.indexOf(":");
    const field = line.slice(0, Math.max(0, colon));
    if (dpkgFields.has(field) && !fields.has(field)) fields.set(field, line.slice(colon + 1).trim());
    if (line !== "") continue;
    addPackage(packages, fields);
    fields = new Map();
  }
  return packages;
}

/** Ends with an empty line. */
function* linesOf(text: string): Generator<string> {
  for (let at = 0; at < text.length;) {
    const found = text.indexOf("\n", at);
    const end = found < 0 ? text.length : found;
    yield text.slice(at, end).trimEnd();
    at = end + 1;
  }
  yield "";
}

function addPackage(packages: Map<string, string>, fields: ReadonlyMap<string, string>): void {
  const [name = "", version = ""] = [fields.get("Package"), fields.get("Version")];
  const isKnown = [name, version].every((each) => each !== "" && each.length <= 256);
  if (isKnown && fields.get("Status")?.endsWith(" installed") === true)
    packages.set(`${name}:${fields.get("Architecture") ?? ""}`, version);
}

const dpkgFields = new Set(["Package", "Version", "Status", "Architecture"]);

/** The file that pip has for each package. */
export const pipMetadata = "METADATA";

const pipSuffix = ".dist-info";

/** The package of pip whose metadata has a directory. */
export function pipPackage(directory: string): { name: string; version: string } | undefined {
  const base = directory.slice(directory.lastIndexOf("/") + 1);
  if (!base.endsWith(pipSuffix) || base.length > 300) return undefined;
  const [, name, version] = /^([\w.-]+)-([\w.+!]+)$/.exec(base.slice(0, -pipSuffix.length)) ?? [];
  return name === undefined || version === undefined ? undefined : { name, version };
}

function tooLarge(why: string): RametError {
  return new RametError("CheckpointTooLarge", `The layer is not compared: ${why}`);
}

function invalid(why: string): RametError {
  return new RametError("InvalidArgument", `The layer cannot be read: ${why}`);
}
