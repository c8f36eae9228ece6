import type { Grant } from "../api/wire/grant.ts";
import { openDirectoryForRead } from "./directory/read.ts";
import { openDirectoryForWrite } from "./directory/write.ts";
import { decrypting, encrypting } from "./encryption/sessions.ts";
import { wrongAccess } from "./checkpoint-id.ts";
import { openObjectsForRead } from "./objects/read.ts";
import { openObjectsForWrite } from "./objects/publish.ts";
import type { OpenForReadOptions, OpenForWriteOptions, ReadSession, WriteSession } from "./sessions.ts";

/**
 * Opens the checkpoint of a grant for writing.
 * @throws RametError `GrantInvalid`, `StoreFull`, `StoreReadOnly`, `StoreUnavailable`, `CheckpointTooLarge`
 */
export async function openForWrite(grant: Grant, options: OpenForWriteOptions = {}): Promise<WriteSession> {
  const session = await openPlainForWrite(grant, options);
  const { encryption } = grant;
  if (encryption === undefined) return session;
  return encrypting(session, { ...grant, encryption }, options.scratchPath).catch(async (error: unknown) => {
    await session.abandon();
    throw error;
  });
}

async function openPlainForWrite(grant: Grant, options: OpenForWriteOptions): Promise<WriteSession> {
  if (grant.driver === "directory") return openDirectoryForWrite(grant, options);
  if (grant.access === "write") return openObjectsForWrite(grant, options);
  throw wrongAccess(grant, "write");
}

/**
 * Opens the checkpoint of a grant for a restore. Verifies the manifest against the digest in the grant. Verifies files of a
 * directory store by fingerprint, and by hash if the fingerprint differs. Verifies downloaded files by hash.
 * @throws RametError `GrantInvalid`, `CheckpointLost`, `CheckpointTooNew`, `StoreUnavailable`
 */
export async function openForRead(grant: Grant, options: OpenForReadOptions = {}): Promise<ReadSession> {
  return decrypting(await openPlainForRead(grant, options), grant, options.scratchPath);
}

async function openPlainForRead(grant: Grant, options: OpenForReadOptions): Promise<ReadSession> {
  if (grant.driver === "directory") return openDirectoryForRead(grant, options);
  if (grant.access === "read") return openObjectsForRead(grant, options);
  throw wrongAccess(grant, "read");
}
