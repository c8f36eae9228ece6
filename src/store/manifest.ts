import { createHash } from "node:crypto";
import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import * as z from "zod";
import { ContainerSpec } from "../api/wire/cell-api.ts";
import { Digest } from "../api/schema/digest.ts";
import { Envelope, LayerRef, mostLayers } from "../api/wire/grant.ts";
import { Contents, LeftOut, RandomPrograms } from "../api/schema/metadata.ts";
import { canonicalJson } from "../base/canonical-json.ts";
import { RametError, textOfError } from "../base/errors.ts";
import { tolerantParse } from "../base/tolerant-parse.ts";
import { CheckpointId, type CheckpointRef, NamespaceName } from "./checkpoint-id.ts";

/**
 * Version 2 is encrypted, version 3 is a layer or needs layers, version 4 has a file in several objects. Others have version 1, so that
 * earlier releases can read them.
 */
const manifestVersion = 4;

/** The name of a file in a checkpoint: one path component without characters that are special to a shell or a driver. */
export const FileName = z
  .string()
  .max(128)
  .regex(/^[A-Za-z0-9][A-Za-z0-9._-]*$/, "must be a file name of letters, digits, '.', '_' and '-'");

/** What is read with one request is in one object. */
export const objectUnitBytes = 4 << 20;

export const ManifestFile = z.object({
  name: FileName,
  sizeBytes: z.number().int().min(0),
  digest: Digest,
  /** Of a file that begins with the memory and ends with the files of a sandbox: where the files begin, and the digests of both. */
  split: z.object({ atBytes: z.number().int().min(0), digests: z.tuple([Digest, Digest]) }).optional(),
  /** In a bucket: the size of the objects that have the file, but for the last one. Absent: one object has all of it. */
  objectBytes: z.number().int().positive().multipleOf(objectUnitBytes).optional(),
});
export type ManifestFile = z.infer<typeof ManifestFile>;

/**
 * The container that was captured, as a restore compares it. Only the names of its environment are kept: values may be
 * secrets, and gVisor lets them differ at a restore.
 */
const ManifestContainer = ContainerSpec.omit({ env: true }).extend({
  envNames: z.array(z.string()).default([]),
});

/** The needs of a restore of the memory. */
const Engine = z.object({
  name: z.literal("gvisor"),
  /** The output of `runsc --version`. gVisor restores only images of the same build. */
  version: z.string().min(1),
  platform: z.string().min(1),
  /** Go's name: `amd64` or `arm64`. */
  architecture: z.string().min(1),
  /** The digest of the guest binary. The memory image contains only a reference to it. */
  guest: Digest.optional(),
  cpuFeatures: z.array(z.string()).optional(),
});

/** The content of a checkpoint and the needs of its restore. A published manifest never changes. */
export const Manifest = z.object({
  v: z.literal([1, 2, 3, manifestVersion]),
  namespace: NamespaceName,
  checkpointId: CheckpointId,
  contents: Contents,
  files: z
    .array(ManifestFile)
    .min(1)
    .refine((files) => new Set(files.map((file) => file.name)).size === files.length, "contains a file name twice"),
  /** The capture time, RFC 3339. */
  cutAt: z.iso.datetime({ offset: true }),
  engine: Engine,
  templateDigest: z.string().min(1),
  container: ManifestContainer,
  image: z.object({ name: z.string().min(1), digest: z.string().min(1).optional() }),
  /** `crash`: as after a power failure. `quiesced`: the guest synced first. `atomic`: one moment for memory and files. */
  consistency: z.enum(["crash", "quiesced", "atomic"]),
  /** How many identities the captured memory has had. Absent if unknown. */
  generation: z.number().int().min(1).optional(),
  /** Programs in the memory whose clones repeat random numbers, if the request asked for them. */
  randomPrograms: RandomPrograms.optional(),
  /** How many bytes of its files share blocks of the disk with the source's writable layer. Absent: none. */
  clonedBytes: z.number().int().min(1).optional(),
  /** Device nodes that a layer lacks, because no layer may bring one to a node: how many, and the first ones. */
  leftOut: LeftOut.optional(),
  /** The layers between the image and this checkpoint, in their order. */
  layers: z.array(LayerRef).max(mostLayers).optional(),
  /** Absent: the content is not encrypted. The sizes and digests are those of the encrypted files. */
  encryption: Envelope.optional(),
});
export type Manifest = z.infer<typeof Manifest>;

/** The cell's part of a manifest. The store adds the names and the files, and drops the values of the environment. */
export interface ManifestDraft extends Omit<Manifest, "v" | "namespace" | "checkpointId" | "files" | "container"> {
  container: ContainerSpec;
  /** How many bytes of `pagesFile` are of the memory. The others are of files. @default they are not told apart */
  memoryPagesBytes?: number;
}

/** Builds the manifest of `files`. @throws RametError `InvalidArgument`, which names the invalid field */
export function manifestFrom(ref: CheckpointRef, files: ManifestFile[], draft: ManifestDraft): Manifest {
  const { env, ...container } = draft.container;
  const result = Manifest.safeParse({
    ...draft,
    v: versionOf(files, draft),
    ...ref,
    files: files.toSorted((a, b) => (a.name < b.name ? -1 : 1)),
    container: { ...container, envNames: env.map((variable) => variable.name).sort() },
  });
  if (result.success) return result.data;
  throw new RametError(
    "InvalidArgument",
    `the manifest of checkpoint ${ref.checkpointId} is not valid: ${issue(result.error)}`,
  );
}

/** gVisor's file with the pages of the memory, and then those of the writable layer. */
export const pagesFile = "pages.img";

/** Where the content of a staged file changes from memory to files. */
export function splitOf(name: string, { memoryPagesBytes }: ManifestDraft): number | undefined {
  return name === pagesFile ? memoryPagesBytes : undefined;
}

/** The memory or the files of a checkpoint. */
interface Piece {
  content: "memory" | "filesystem";
  sizeBytes: number;
  /** The digest of the list of what it consists of. */
  digest: string;
}

/** How many bytes of the pages are of the writable layer. 0 if an earlier release has captured them with memory. */
export function writtenBytesIn({ contents, files }: Manifest): number {
  const { sizeBytes = 0, split } = files.find(({ name }) => name === pagesFile) ?? {};
  return sizeBytes - (contents.includes("memory") ? (split?.atBytes ?? sizeBytes) : 0);
}

/** What a checkpoint consists of. Undefined: it is encrypted, or an earlier release has captured its memory. */
export function piecesOf({ contents, files, encryption }: Manifest): Piece[] | undefined {
  if (encryption !== undefined) return undefined;
  if (!contents.includes("memory")) return [pieceOf("filesystem", files)];
  const pages = files.find(({ split }) => split !== undefined);
  if (pages?.split === undefined) return undefined;
  const { split, name } = pages;
  const [memory, written] = split.digests;
  const ofMemory = { name, sizeBytes: split.atBytes, digest: memory };
  const ofFiles = { name, sizeBytes: pages.sizeBytes - split.atBytes, digest: written };
  return [
    pieceOf(
      "memory",
      files.map((file) => (file === pages ? ofMemory : file)),
    ),
    pieceOf("filesystem", [ofFiles]),
  ];
}

function pieceOf(content: Piece["content"], files: readonly ManifestFile[]): Piece {
  return { content, sizeBytes: sizeOf({ files: [...files] }), digest: digestOf(Buffer.from(canonicalJson(files))) };
}

/** The one file of a checkpoint that is a layer. */
export const layerFile = "layer.tar";

export function isLayer({ files }: Pick<Manifest, "files">): boolean {
  return files.some(({ name }) => name === layerFile);
}

function versionOf(files: ManifestFile[], { layers, encryption }: ManifestDraft): Manifest["v"] {
  if (files.some(({ objectBytes }) => objectBytes !== undefined)) return manifestVersion;
  if (isLayer({ files }) || layers !== undefined) return 3;
  return encryption === undefined ? 1 : 2;
}

export function encodeManifest(manifest: Manifest): { bytes: Buffer; digest: string } {
  const bytes = Buffer.from(canonicalJson(manifest), "utf8");
  return { bytes, digest: digestOf(bytes) };
}

/**
 * Decodes a manifest and verifies its digest and its reference.
 * @throws RametError `CheckpointLost` for a wrong digest, another checkpoint or an invalid manifest; `CheckpointTooNew`
 */
export function decodeManifest(bytes: Uint8Array, ref: CheckpointRef, expectedDigest: string): Manifest {
  const digest = digestOf(bytes);
  if (digest !== expectedDigest) {
    throw lost(ref, `its manifest has the digest ${digest} instead of ${expectedDigest}`);
  }
  return parseManifest(bytes, ref);
}

/** Like `decodeManifest`, but without a digest to verify. */
export function parseManifest(bytes: Uint8Array, ref: CheckpointRef): Manifest {
  const value = versionedJson(bytes, ref, { what: "manifest", known: manifestVersion });
  const manifest = valid(value, ref);
  const { namespace, checkpointId } = manifest;
  if (namespace !== ref.namespace || checkpointId !== ref.checkpointId) {
    throw lost(ref, `its manifest belongs to ${namespace}/${checkpointId}`);
  }
  return manifest;
}

/** A later release may have written fields that this one does not know. It raises `v` if they must not be ignored. */
function valid(value: unknown, ref: CheckpointRef): Manifest {
  try {
    return tolerantParse(Manifest, value).value;
  } catch (error) {
    const why = error instanceof z.ZodError ? issue(error) : textOfError(error);
    throw lost(ref, `its manifest is not valid: ${why}`);
  }
}

export function sizeOf({ files }: Pick<Manifest, "files">): number {
  return files.reduce((sum, file) => sum + file.sizeBytes, 0);
}

export function digestOf(bytes: Uint8Array): string {
  return `sha256:${createHash("sha256").update(bytes).digest("hex")}`;
}

/** The error for data that is missing or does not match its record. */
export function lost(ref: CheckpointRef, why: string, cause?: unknown): RametError {
  return new RametError("CheckpointLost", `checkpoint ${ref.namespace}/${ref.checkpointId} is lost: ${why}`, {
    hint: "Delete the Checkpoint and create it again, or restore the store's data from a backup",
    cause,
  });
}

/**
 * Parses stored JSON that has its format version in `v`.
 * @param of the name of the format and the newest supported version
 * @throws RametError `CheckpointLost` if it is not JSON; `CheckpointTooNew` if the version is not supported
 */
export function versionedJson(bytes: Uint8Array, ref: CheckpointRef, of: { what: string; known: number }): unknown {
  const value = json(bytes, ref, of.what);
  const versioned = z.object({ v: z.number() }).safeParse(value);
  if (!versioned.success || versioned.data.v <= of.known) return value;
  throw new RametError(
    "CheckpointTooNew",
    `cannot read checkpoint ${ref.checkpointId}: its ${of.what} has version ${versioned.data.v}, but the newest supported version is ${of.known}`,
    { hint: "Upgrade Ramet to the version that created the checkpoint, or a later one" },
  );
}

function json(bytes: Uint8Array, ref: CheckpointRef, what: string): unknown {
  try {
    return JSON.parse(Buffer.from(bytes).toString("utf8"));
  } catch (error) {
    throw lost(ref, `its ${what} is not JSON`, error);
  }
}

function issue(error: z.ZodError): string {
  const first = error.issues[0];
  return first === undefined ? "unknown" : `${first.path.join(".")}: ${first.message}`;
}

/**
 * Lists the files that gVisor has written, sorted by name.
 * @throws RametError `InvalidArgument` if there is none, or if an entry is not a regular file
 */
export async function imageFiles(imagePath: string): Promise<string[]> {
  const entries = await readdir(imagePath, { withFileTypes: true });
  for (const entry of entries) {
    if (!entry.isFile()) throw invalidFile(entry.name, "it is not a regular file");
    if (!FileName.safeParse(entry.name).success) throw invalidFile(entry.name, "its name is not allowed");
  }
  if (entries.length === 0) throw new RametError("InvalidArgument", "cannot publish the checkpoint: it has no files");
  return entries.map((entry) => entry.name).sort();
}

/** The size of the files that a capture has written. */
export async function stagedBytes(imagePath: string): Promise<number> {
  const names = await imageFiles(imagePath);
  const sizes = await Promise.all(names.map(async (name) => (await stat(join(imagePath, name))).size));
  return sizes.reduce((sum, size) => sum + size, 0);
}

export function invalidFile(name: string, why: string): RametError {
  return new RametError("InvalidArgument", `cannot publish file ${JSON.stringify(name)}: ${why}`);
}
