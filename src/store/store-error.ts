import { RametError } from "../base/errors.ts";
import type { ErrorCode } from "../base/error-codes.ts";
import type { CheckpointRef } from "./checkpoint-id.ts";

/** The `code` of a failed system call, such as `ENOENT`; `undefined` for any other thing that was thrown. */
export function errnoOf(error: unknown): string | undefined {
  const code = error instanceof Error ? (error as NodeJS.ErrnoException).code : undefined;
  return typeof code === "string" ? code : undefined;
}

/** What a system call of a directory store failed with, as the error that a person can act on. */
export function storeError(error: unknown, whatFailed: string): RametError {
  if (error instanceof RametError) return error;
  if (error instanceof Error && error.name === "AbortError") {
    return new RametError("Canceled", `${whatFailed}: it was given up`, { cause: error });
  }
  const errno = errnoOf(error);
  const kind = errno === undefined ? undefined : kinds[errno];
  if (kind === undefined) return RametError.from(error, whatFailed);
  const { code, why, hint } = kind;
  return new RametError(code, `${whatFailed}: ${why} (${errno ?? ""})`, { hint, cause: error });
}

/** What `operation` gives; what it fails with, as `storeError` says it. */
export async function guarded<T>(whatFailed: string, operation: () => Promise<T>): Promise<T> {
  try {
    return await operation();
  } catch (error) {
    throw storeError(error, whatFailed);
  }
}

/** The error for another content under an id that is taken. */
export function alreadyPublished(ref: CheckpointRef, digest: string): RametError {
  return new RametError(
    "AlreadyExists",
    `publishing checkpoint ${ref.checkpointId} was refused: it is published already, with the manifest ${digest}`,
    { hint: "A checkpoint is immutable: use the published one, or take a new one under another id." },
  );
}

export const roomHint = "Delete checkpoints that are not needed, or enlarge the store's file system.";

/** Of a folder of the cell's own, through which the files of an object store go. */
export const scratchHint =
  "Give the sandbox's Pod more ephemeral storage: a checkpoint's files lie there on their way to and from a bucket.";

interface Kind {
  code: ErrorCode;
  why: string;
  hint: string;
}

const full: Kind = { code: "StoreFull", why: "the store has no room left", hint: roomHint };
const readOnly: Kind = {
  code: "StoreReadOnly",
  why: "the store cannot be written",
  hint: "Mount the store read-write, give its folder to the user that runs Ramet, and use a file system with hard links.",
};
const unavailable: Kind = {
  code: "StoreUnavailable",
  why: "the store's folder is missing or cannot be read",
  hint: "Look whether the store's folder exists and its file system is mounted.",
};

const kinds: Readonly<Record<string, Kind>> = {
  ENOSPC: full,
  EDQUOT: full,
  EFBIG: full,
  EROFS: readOnly,
  EACCES: readOnly,
  EPERM: readOnly,
  ENOENT: unavailable,
  ENOTDIR: unavailable,
  ELOOP: unavailable,
  EIO: unavailable,
  ESTALE: unavailable,
  ENODEV: unavailable,
  ENOTCONN: unavailable,
  ETIMEDOUT: unavailable,
};
