import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Grant, GrantEncryption } from "../../api/wire/grant.ts";
import { RametError } from "../../base/errors.ts";
import { imageFiles, lost, type Manifest } from "../manifest.ts";
import type { ReadSession, WriteSession } from "../sessions.ts";
import { guarded, storeError } from "../store-error.ts";
import { decryptFile, encryptFile, type FileKey } from "./cipher.ts";

/**
 * Encrypts what a session publishes. gVisor writes into a directory of the cell, so no plain data ever is in the store.
 * @param scratchPath a writable directory of the cell
 */
export async function encrypting(
  inner: WriteSession,
  grant: Grant & { encryption: GrantEncryption },
  scratchPath: string = tmpdir(),
): Promise<WriteSession> {
  const { checkpointId, encryption } = grant;
  const what = `encrypting checkpoint ${checkpointId}`;
  const stagingPath = await guarded(what, () => mkdtemp(join(scratchPath, "plain-")));
  const remove = () => guarded(what, () => rm(stagingPath, { recursive: true, force: true }));
  return {
    stagingPath,
    published: inner.published,
    publish: async (draft, signal) => {
      await guarded(what, async () => {
        const names = await imageFiles(stagingPath);
        await Promise.all(
          names.map((name) =>
            encryptFile(join(stagingPath, name), join(inner.stagingPath, name), fileKey(grant, name), signal),
          ),
        );
      });
      // Digests of parts of the plain data would tell readers of the store about it.
      const { memoryPagesBytes: _, ...rest } = draft;
      return inner.publish({ ...rest, encryption: encryption.envelope }, signal);
    },
    abandon: async () => {
      await Promise.all([inner.abandon(), remove()]);
    },
  };
}

/** Decrypts what a session reads into a directory of the cell. */
export async function decrypting(
  inner: ReadSession,
  grant: Grant,
  scratchPath: string = tmpdir(),
): Promise<ReadSession> {
  const { manifest } = inner;
  const { encryption } = grant;
  if (manifest.encryption === undefined) return inner;
  const what = `decrypting checkpoint ${grant.checkpointId}`;
  const directory = await guarded(what, () => mkdtemp(join(scratchPath, "plain-")));
  const release = () => guarded(what, () => rm(directory, { recursive: true, force: true }));
  try {
    if (encryption === undefined) throw withoutKey(manifest);
    const keyed = { ...grant, encryption };
    await Promise.all(
      manifest.files.map(({ name }) =>
        decryptFile(join(inner.imagePath, name), join(directory, name), fileKey(keyed, name)).catch(
          (error: unknown) => {
            throw unreadable(manifest, name, error);
          },
        ),
      ),
    );
    return { manifest, imagePath: directory, rehashed: inner.rehashed, release };
  } catch (error) {
    await release();
    throw error;
  } finally {
    await inner.release();
  }
}

function fileKey(
  { namespace, checkpointId, encryption }: Grant & { encryption: GrantEncryption },
  name: string,
): FileKey {
  return { dataKey: Buffer.from(encryption.dataKey, "base64"), identity: `${namespace}/${checkpointId}/${name}` };
}

function withoutKey({ checkpointId, encryption }: Manifest): RametError {
  const key = `the key ${encryption?.key ?? ""} of the Secret ${encryption?.secret ?? ""}`;
  const what = `cannot read checkpoint ${checkpointId}: it is encrypted with ${key}, and the controllers do not use encryption`;
  return new RametError("KeyUnavailable", what, { hint: "Start the controllers with --encryption-secret" });
}

/** Errors of the file system have a code; what does not decrypt has none, or one of OpenSSL. */
function unreadable(manifest: Manifest, name: string, error: unknown): RametError {
  const known = storeError(error, `decrypting ${name}`);
  return known.code === "Internal"
    ? lost(manifest, `its file ${name} cannot be decrypted: it was changed`, error)
    : known;
}
