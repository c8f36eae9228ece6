import { createHash } from "node:crypto";
import { readdir } from "node:fs/promises";
import * as z from "zod";
import { ContainerSpec } from "../api/cell/cell-api.ts";
import { Digest } from "../api/cell/grant.ts";
import { Contents } from "../api/schema/contents.ts";
import { canonicalJson } from "../base/canonical-json.ts";
import { RametError } from "../base/errors.ts";
import { CheckpointId, type CheckpointRef, NamespaceName } from "./checkpoint-id.ts";

const manifestVersion = 1;

/** A file's name in a checkpoint's image folder: one path component that no shell or driver treats specially. */
export const FileName = z
  .string()
  .max(128)
  .regex(/^[A-Za-z0-9][A-Za-z0-9._-]*$/, "must be a plain file name");

export const ManifestFile = z.object({ name: FileName, sizeBytes: z.number().int().min(0), digest: Digest });
export type ManifestFile = z.infer<typeof ManifestFile>;

/**
 * The container that was captured, as a restore compares it. Of its environment only the names are kept: values may be
 * secrets, and gVisor lets them differ at a restore.
 */
const ManifestContainer = ContainerSpec.omit({ env: true }).extend({
  envNames: z.array(z.string()).default([]),
});

/** What the memory of a checkpoint needs of the node that restores it. */
const Engine = z.object({
  name: z.literal("gvisor"),
  /** `runsc --version`: gVisor restores only what the very same build has saved. */
  version: z.string().min(1),
  platform: z.string().min(1),
  /** As Go says it: `amd64`, `arm64`. */
  architecture: z.string().min(1),
  /** Of the guest's program, which memory holds by reference only. */
  guest: Digest.optional(),
  cpuFeatures: z.array(z.string()).optional(),
});

/** What a checkpoint is made of and what a restore of it needs. Its canonical bytes never change once published. */
export const Manifest = z.object({
  v: z.literal(manifestVersion),
  namespace: NamespaceName,
  checkpointId: CheckpointId,
  contents: Contents,
  files: z
    .array(ManifestFile)
    .min(1)
    .refine((files) => new Set(files.map((file) => file.name)).size === files.length, "names a file twice"),
  /** The instant of the capture, RFC 3339. */
  cutAt: z.iso.datetime({ offset: true }),
  engine: Engine,
  templateDigest: z.string().min(1),
  container: ManifestContainer,
  image: z.object({ name: z.string().min(1), digest: z.string().min(1).optional() }),
  /** `crash`: as after a power cut. `quiesced`: the guest synced first. `atomic`: one instant for memory and files. */
  consistency: z.enum(["crash", "quiesced", "atomic"]),
  /** How often the captured memory had been given an identity; absent where that was not certain. */
  generation: z.number().int().min(1).optional(),
});
export type Manifest = z.infer<typeof Manifest>;

/** What a cell says about a cut; the store adds the names and the files. The environment's values are dropped. */
export interface ManifestDraft extends Omit<Manifest, "v" | "namespace" | "checkpointId" | "files" | "container"> {
  container: ContainerSpec;
}

/** The manifest of `files`, with nothing in it that a draft may not say; `InvalidArgument` names an illegal field. */
export function manifestFrom(ref: CheckpointRef, files: ManifestFile[], draft: ManifestDraft): Manifest {
  const { env, ...container } = draft.container;
  const result = Manifest.safeParse({
    ...draft,
    v: manifestVersion,
    ...ref,
    files: files.toSorted((a, b) => (a.name < b.name ? -1 : 1)),
    container: { ...container, envNames: env.map((variable) => variable.name).sort() },
  });
  if (result.success) return result.data;
  throw new RametError(
    "InvalidArgument",
    `manifest of checkpoint ${ref.checkpointId} is not legal: ${issue(result.error)}`,
  );
}

export function encodeManifest(manifest: Manifest): { bytes: Buffer; digest: string } {
  const bytes = Buffer.from(canonicalJson(manifest), "utf8");
  return { bytes, digest: digestOf(bytes) };
}

/**
 * The manifest in `bytes`, once they have the digest that was recorded and are about the checkpoint that was asked for.
 * Errors: `CheckpointLost` (other bytes, other checkpoint, not a manifest), `CheckpointTooNew`.
 */
export function decodeManifest(bytes: Uint8Array, ref: CheckpointRef, expectedDigest: string): Manifest {
  const digest = digestOf(bytes);
  if (digest !== expectedDigest) {
    throw lost(ref, `its manifest has the digest ${digest}, recorded was ${expectedDigest}`);
  }
  return parseManifest(bytes, ref);
}

/** As `decodeManifest`, where no recorded digest is at hand. */
export function parseManifest(bytes: Uint8Array, ref: CheckpointRef): Manifest {
  const value = versionedJson(bytes, ref, { what: "manifest", known: manifestVersion });
  const result = Manifest.safeParse(value);
  if (!result.success) throw lost(ref, `its manifest is not legal: ${issue(result.error)}`);
  const { namespace, checkpointId } = result.data;
  if (namespace !== ref.namespace || checkpointId !== ref.checkpointId) {
    throw lost(ref, `its manifest is about ${namespace}/${checkpointId}`);
  }
  return result.data;
}

export function sizeOf(manifest: Manifest): number {
  return manifest.files.reduce((sum, file) => sum + file.sizeBytes, 0);
}

export function digestOf(bytes: Uint8Array): string {
  return `sha256:${createHash("sha256").update(bytes).digest("hex")}`;
}

/** The error for data that is not there or not what was recorded. */
export function lost(ref: CheckpointRef, why: string, cause?: unknown): RametError {
  return new RametError("CheckpointLost", `checkpoint ${ref.namespace}/${ref.checkpointId} cannot be used: ${why}`, {
    hint: "Delete the Checkpoint and take it again, or bring the store's data back from a backup.",
    cause,
  });
}

/**
 * What is stored of a checkpoint, with its version in `v`. Errors: `CheckpointLost` where it is not JSON, `CheckpointTooNew` where its version
 * is not known yet.
 * @param of what it is called, and the newest version that this Ramet knows
 */
export function versionedJson(bytes: Uint8Array, ref: CheckpointRef, of: { what: string; known: number }): unknown {
  const value = json(bytes, ref, of.what);
  const versioned = z.object({ v: z.number() }).safeParse(value);
  if (!versioned.success || versioned.data.v <= of.known) return value;
  throw new RametError(
    "CheckpointTooNew",
    `checkpoint ${ref.checkpointId} cannot be read: its ${of.what} has version ${versioned.data.v}, known is ${of.known}`,
    { hint: "Use the version of Ramet that took it, or a newer one." },
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

/** The names of the files that gVisor has written, in order. `InvalidArgument` unless all are plain files, and there is one. */
export async function imageFiles(imagePath: string): Promise<string[]> {
  const entries = await readdir(imagePath, { withFileTypes: true });
  for (const entry of entries) {
    if (!entry.isFile()) throw illegalFile(entry.name, "it is not a plain file");
    if (!FileName.safeParse(entry.name).success) throw illegalFile(entry.name, "its name is not allowed");
  }
  if (entries.length === 0)
    throw new RametError("InvalidArgument", "publishing was refused: the checkpoint has no files");
  return entries.map((entry) => entry.name).sort();
}

export function illegalFile(name: string, why: string): RametError {
  return new RametError("InvalidArgument", `publishing was refused: file ${JSON.stringify(name)}: ${why}`);
}
