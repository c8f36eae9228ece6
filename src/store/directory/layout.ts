import { randomBytes } from "node:crypto";
import { stat } from "node:fs/promises";
import { join } from "node:path";
import { RametError, textOfError, errnoOf } from "../../base/errors.ts";

/** The paths in one namespace's directory; docs/reference/store.md shows them. */
export type Layout = Readonly<ReturnType<typeof layoutOf>>;
/** The paths of a checkpoint: `checkpoints/<id>` after publication, `staging/<id>.<random>` before. */
export type CheckpointLayout = Readonly<ReturnType<typeof checkpointLayout>>;

/** The kind of an entry in `staging`, from its name. */
export type StagingKind =
  | { kind: "attempt"; checkpointId: string }
  | { kind: "restore" }
  | { kind: "doomed" }
  | { kind: "content"; digest: string };

/** Files in the root, with which a probe tests whether the store can be written. */
export const probePrefix = ".probe.";

export const restorePrefix = "_restore";
export const doomedPrefix = "_doomed";
export const contentPrefix = "_content";

export function layoutOf(path: string) {
  const contentDirectory = join(path, "content", "sha256");
  const checkpoints = join(path, "checkpoints");
  const staging = join(path, "staging");
  return {
    path,
    /** Contains the name of the namespace, so that a cell can verify it under any mount path. */
    marker: join(path, "namespace.json"),
    contentDirectory,
    checkpoints,
    staging,
    /** The path of the content with this digest. */
    content: (digest: string) => {
      const hex = digest.slice("sha256:".length);
      return join(contentDirectory, hex.slice(0, 2), hex);
    },
    checkpoint: (id: string) => checkpointLayout(join(checkpoints, id)),
    /** A new path in `staging`. `kind` is a checkpoint id, or begins with `_`, which no id does. */
    stagingEntry: (kind: string, id?: string) =>
      join(staging, [kind, ...(id === undefined ? [] : [id]), random()].join(".")),
  };
}

export function checkpointLayout(path: string) {
  return {
    path,
    manifest: join(path, "manifest.json"),
    fingerprints: join(path, "fingerprints.json"),
    image: join(path, "image"),
  };
}

/** Returns `undefined` for a name that the driver does not create. */
export function stagingKind(name: string): StagingKind | undefined {
  const match = /^(_restore|_doomed|_content)?\.?(.*?)\.?([0-9a-f]{16})$/.exec(name);
  if (match === null) return undefined;
  const [, prefix, rest = ""] = match;
  switch (prefix) {
    case restorePrefix:
      return { kind: "restore" };
    case doomedPrefix:
      return { kind: "doomed" };
    case contentPrefix:
      return /^[0-9a-f]{64}$/.test(rest) ? { kind: "content", digest: `sha256:${rest}` } : undefined;
    default:
      return rest === "" ? undefined : { kind: "attempt", checkpointId: rest };
  }
}

function random(): string {
  return randomBytes(8).toString("hex");
}

/** Returns `StoreUnavailable` if the root is not usable. The operator may use a symbolic link as the root. */
export async function rootProblem(root: string): Promise<RametError | undefined> {
  const hint = "Create the directory, or mount the file system that contains it";
  try {
    return (await stat(root)).isDirectory() ? undefined : unusable(root, "it is not a directory", hint);
  } catch (error) {
    const errno = errnoOf(error);
    return unusable(root, errno === "ENOENT" ? "it does not exist" : (errno ?? textOfError(error)), hint, error);
  }
}

export async function requireRoot(root: string): Promise<void> {
  const problem = await rootProblem(root);
  if (problem !== undefined) throw problem;
}

/** The error for a directory of the store that is missing, or is something else. */
export function unusable(path: string, why: string, hint: string, cause?: unknown): RametError {
  return new RametError("StoreUnavailable", `cannot use the store directory ${path}: ${why}`, { hint, cause });
}
