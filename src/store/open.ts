import type { Grant } from "../api/grant.ts";
import { openDirectoryForRead } from "./directory/read.ts";
import { openDirectoryForWrite } from "./directory/write.ts";
import type { OpenForReadOptions, OpenForWriteOptions, ReadSession, WriteSession } from "./sessions.ts";

/**
 * Opens the one checkpoint that `grant` names to write it.
 * Errors: `GrantInvalid`, `StoreFull`, `StoreReadOnly`, `StoreUnavailable`.
 */
export async function openForWrite(grant: Grant, options: OpenForWriteOptions = {}): Promise<WriteSession> {
  // One driver today; the next one makes this a switch over `grant.driver`.
  return openDirectoryForWrite(grant, options);
}

/**
 * Opens the one checkpoint that `grant` names to restore it. The manifest must have the digest in the grant; files are
 * compared by fingerprint and hashed only where that differs.
 * Errors: `GrantInvalid`, `CheckpointLost`, `CheckpointTooNew`, `StoreUnavailable`.
 */
export async function openForRead(grant: Grant, options: OpenForReadOptions = {}): Promise<ReadSession> {
  return openDirectoryForRead(grant, options);
}
