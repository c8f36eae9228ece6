import { tmpdir } from "node:os";
import { join } from "node:path";
import type { DirectoryGrant } from "../../api/cell/grant.ts";
import { checkGrant, refused } from "../grant-check.ts";
import { lost, type ManifestFile } from "../manifest.ts";
import type { OpenForReadOptions, ReadSession } from "../sessions.ts";
import { storeError } from "../store-error.ts";
import { unless } from "./durable.ts";
import { readFingerprints } from "./fingerprints.ts";
import { holdByHandles, holdByLinks, type HeldImage } from "./held-image.ts";
import type { Layout } from "./layout.ts";
import { openNamespaceFolder } from "./namespace-directory.ts";
import { publishedManifest } from "./published.ts";
import { verifyImage } from "./verify-image.ts";

/** The cell's side of a restore; `openForRead` says what it promises. */
export async function openDirectoryForRead(grant: DirectoryGrant, options: OpenForReadOptions): Promise<ReadSession> {
  checkGrant(grant, "read", (options.now ?? Date.now)());
  try {
    const layout = await openNamespaceFolder(grant);
    const held =
      (await holdByLinks(layout, grant.checkpointId)) ?? (await holdByHandles(options.scratchPath ?? tmpdir()));
    try {
      return await openHeld(layout, held, grant, options);
    } catch (error) {
      await held.release();
      throw error;
    }
  } catch (error) {
    throw storeError(error, `opening checkpoint ${grant.checkpointId} for reading`);
  }
}

async function openHeld(
  layout: Layout,
  held: HeldImage,
  grant: DirectoryGrant,
  options: OpenForReadOptions,
): Promise<ReadSession> {
  if (grant.manifestDigest === undefined) throw refused(grant, "it names no manifest");
  const fingerprints = readFingerprints(layout.checkpoint(grant.checkpointId));
  const manifest = await publishedManifest(layout, grant, grant.manifestDigest);
  await options.onStep?.("manifest");
  await Promise.all(manifest.files.map((file) => holdFile(layout, held, grant, file)));
  await options.onStep?.("held");
  const rehashed = await verifyImage(layout, held, manifest, { fingerprints, signal: options.signal });
  return { manifest, imagePath: held.path, rehashed, release: () => held.release() };
}

/** The checkpoint's own link first; should somebody have lost it, the kept content is the same file. */
async function holdFile(layout: Layout, held: HeldImage, grant: DirectoryGrant, file: ManifestFile): Promise<void> {
  const own = join(layout.checkpoint(grant.checkpointId).image, file.name);
  for (const source of [own, layout.content(file.digest)]) {
    const done = await unless(
      held.hold(source, file.name).then(() => true),
      "ENOENT",
      "ENOTDIR",
      "ELOOP",
      "EMLINK",
    );
    if (done === true) return;
  }
  throw lost(grant, `its file ${file.name} is not in the store`);
}
