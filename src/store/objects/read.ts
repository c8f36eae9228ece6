import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ObjectsReadGrant } from "../../api/cell/grant.ts";
import { checkGrant, refused } from "../grant-check.ts";
import { decodeManifest, lost } from "../manifest.ts";
import type { OpenForReadOptions, ReadSession } from "../sessions.ts";
import { allOrNone } from "./all-or-none.ts";
import { inCell } from "./cell-error.ts";
import { downloadFile } from "./download-file.ts";
import { isPublicationUrl } from "./layout.ts";
import { readPublished } from "./read-published.ts";

/** The cell's side of a restore; `openForRead` says what it promises. All of the checkpoint is here when this answers. */
export async function openObjectsForRead(grant: ObjectsReadGrant, options: OpenForReadOptions): Promise<ReadSession> {
  checkGrant(grant, "read", (options.now ?? Date.now)());
  if (!isPublicationUrl(grant.publication.url, grant)) throw refused(grant, "it is signed for another checkpoint");
  return inCell(`opening checkpoint ${grant.checkpointId} for reading`, grant, async () => {
    const publication = await readPublished(grant, options.signal);
    if (publication === undefined) throw lost(grant, "it is not in the store");
    const manifest = decodeManifest(publication.manifestBytes, grant, grant.manifestDigest);
    await options.onStep?.("manifest");
    const imagePath = await mkdtemp(join(options.scratchPath ?? tmpdir(), "restore-"));
    const release = (): Promise<void> => rm(imagePath, { recursive: true, force: true });
    try {
      await allOrNone(options.signal, manifest.files, (file, signal, index) =>
        downloadFile(grant, file, { index, path: join(imagePath, file.name), signal }),
      );
    } catch (error) {
      await release();
      throw error;
    }
    await options.onStep?.("held");
    return { manifest, imagePath, rehashed: [], release };
  });
}
