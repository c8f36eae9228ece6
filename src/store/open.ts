import type { Grant } from "../api/cell/grant.ts";
import { openDirectoryForRead } from "./directory/read.ts";
import { openDirectoryForWrite } from "./directory/write.ts";
import { otherUse } from "./grant-check.ts";
import { openObjectsForRead } from "./objects/read.ts";
import { openObjectsForWrite } from "./objects/write.ts";
import type { OpenForReadOptions, OpenForWriteOptions, ReadSession, WriteSession } from "./sessions.ts";

/**
 * Opens the one checkpoint that `grant` names to write it.
 * Errors: `GrantInvalid`, `StoreFull`, `StoreReadOnly`, `StoreUnavailable`, `CheckpointTooLarge`.
 */
export async function openForWrite(grant: Grant, options: OpenForWriteOptions = {}): Promise<WriteSession> {
  if (grant.driver === "directory") return openDirectoryForWrite(grant, options);
  if (grant.access === "write") return openObjectsForWrite(grant, options);
  throw otherUse(grant, "write");
}

/**
 * Opens the one checkpoint that `grant` names to restore it. The manifest must have the digest in the grant. Files of a folder
 * are compared by fingerprint and hashed only where that differs; what comes from afar is hashed on its way.
 * Errors: `GrantInvalid`, `CheckpointLost`, `CheckpointTooNew`, `StoreUnavailable`.
 */
export async function openForRead(grant: Grant, options: OpenForReadOptions = {}): Promise<ReadSession> {
  if (grant.driver === "directory") return openDirectoryForRead(grant, options);
  if (grant.access === "read") return openObjectsForRead(grant, options);
  throw otherUse(grant, "read");
}
