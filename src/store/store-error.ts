import { errnoOf, RametError } from "../base/errors.ts";
import type { ErrorCode } from "../base/error-codes.ts";
import type { CheckpointRef } from "./checkpoint-id.ts";

/** Converts the error of a system call to a RametError. @param whatFailed the start of the message */
export function storeError(error: unknown, whatFailed: string): RametError {
  if (error instanceof RametError) return error;
  if (error instanceof Error && error.name === "AbortError") {
    return new RametError("Canceled", `${whatFailed} was canceled by its caller`, { cause: error });
  }
  const errno = errnoOf(error);
  const kind = errno === undefined ? undefined : kinds[errno];
  if (kind === undefined) return RametError.from(error, `${whatFailed} failed`);
  const { code, why, hint } = kind;
  return new RametError(code, `${whatFailed} failed: ${why} (${errno ?? ""})`, { hint, cause: error });
}

/** Runs `operation` and converts its errors with `storeError`. */
export async function guarded<T>(whatFailed: string, operation: () => Promise<T>): Promise<T> {
  try {
    return await operation();
  } catch (error) {
    throw storeError(error, whatFailed);
  }
}

/** The error for different content under an existing id. */
export function alreadyPublished(ref: CheckpointRef, digest: string): RametError {
  return new RametError(
    "AlreadyExists",
    `cannot publish checkpoint ${ref.checkpointId}: it is already published with the manifest ${digest}`,
    { hint: "Use the published checkpoint, or create one with another id" },
  );
}

export const spaceHint = "Delete checkpoints that you do not need, or enlarge the store's file system";

/** For the cell's directory, where files are on their way to or from a bucket. */
export const scratchHint =
  "Give the sandbox's Pod more ephemeral storage, which holds a checkpoint's files on their way to or from a bucket";

interface Kind {
  code: ErrorCode;
  why: string;
  hint: string;
}

const full: Kind = { code: "StoreFull", why: "the store has no space left", hint: spaceHint };
const readOnly: Kind = {
  code: "StoreReadOnly",
  why: "the store is not writable",
  hint: "Mount the store read-write on a file system with hard links, and make its directory writable for the user that runs Ramet",
};
const unavailable: Kind = {
  code: "StoreUnavailable",
  why: "the store's directory is missing or unreadable",
  hint: "Check that the store's directory exists and its file system is mounted",
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
