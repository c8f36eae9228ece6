import { isDeepStrictEqual } from "node:util";
import { type CellState, layerBytesOf, type RestoreRequest } from "../../api/wire/cell-api.ts";
import { type EngineBuild, missingFeatures } from "../../api/engine/engine.ts";
import type { ErrorCode } from "../../base/error-codes.ts";
import { RametError } from "../../base/errors.ts";
import type { Grant, LayerRef } from "../../api/wire/grant.ts";
import { isLayer, type Manifest, sizeOf, writtenBytesIn } from "../../store/manifest.ts";
import { openForRead } from "../../store/open.ts";
import type { ReadSession } from "../../store/sessions.ts";
import { inQuantity } from "../cgroup/plan.ts";
import type { SavedFiles } from "../sandbox/saved-image.ts";
import { provideLayer } from "../layers/layer-cache.ts";
import type { NodeCache } from "../layers/node-cache.ts";
import type { UnpackedLayer } from "../sandbox/sandbox.ts";
import type { SandboxSource } from "../sandbox/sandbox-environment.ts";
import type { CellPaths } from "../setting/cell-setting.ts";

/** A checkpoint that is open for one restore and can be restored here. */
export interface RestoreSource extends SandboxSource {
  /** The state of its memory, or of files alone, when the restore returns. Undefined: nothing is loaded. */
  memory: CellState["memory"];
  /** The size of the writable layer that the sandbox then has. */
  layerBytes: number;
  /** How many identities its memory has had, if recorded. 0 if only files are restored. */
  generation: number | undefined;
  /** The CPU features that its memory keeps using, also on a CPU that has more. Undefined if only files are restored. */
  cpuFeatures: string[] | undefined;
  /** Closes the checkpoint. Call it when gVisor has opened its files. Files that cannot be removed are left to the sweep. */
  release(): void;
}

export interface RestoreSourceOptions {
  paths: CellPaths;
  cache: NodeCache | undefined;
  build: () => Promise<EngineBuild>;
  /** The size of the writable layer of this cell's sandboxes. */
  layerBytes: number;
  /** Whether the template sets it. */
  isLayerLimited: boolean;
  /** The sandbox's image, and the digest of its configuration if that is known. */
  image: Manifest["image"];
  report: (message: string, detail?: Record<string, unknown>) => void;
}

/** A checkpoint of up to this size is loaded before its clone runs, because that takes less time than its first response. */
const foregroundBytes = 32 * 2 ** 20;

/** @throws RametError `NeedNotMet`, `CpuFeaturesMissing`, `ImageReplaced`, and those of `openForRead` */
export async function openRestoreSource(
  { grant, contents, layers: grants = [] }: RestoreRequest,
  { paths, cache, build, image, report, ...own }: RestoreSourceOptions,
): Promise<RestoreSource> {
  const session = await openForRead(grant, { scratchPath: paths.directory, shared: cache });
  const { manifest, imagePath } = session;
  // Other cells use an entry of the node's cache, and to find out whether it can be cloned, a file is written beside it.
  const writtenBytes = imagePath.startsWith(`${paths.nodeCache}/`) ? 0 : writtenBytesIn(manifest);
  const release = (): void => {
    session.release().catch((error: unknown) => {
      report("removing the files of a restore failed; the sweep removes them", {
        message: RametError.from(error).message,
      });
    });
  };
  const unmet = await build().then(
    (built) => unmetNeed(manifest, built) ?? otherImage(manifest, image) ?? tooLarge(manifest, contents, own),
    (error: unknown) => RametError.from(error),
  );
  if (unmet !== undefined) {
    release();
    throw unmet;
  }
  const layers = await unpackedLayers(session, grants, { grant, paths, cache }).catch((error: unknown) => {
    release();
    throw error;
  });
  if (!contents.includes("memory")) {
    const origin = isLayer(manifest) ? "image" : savedFiles(manifest, { imagePath, writtenBytes });
    return {
      layers,
      origin,
      // gVisor reads them in the background, however few they are.
      memory: typeof origin === "object" && "imagePath" in origin ? "loading" : undefined,
      layerBytes: own.layerBytes,
      generation: 0,
      cpuFeatures: undefined,
      release,
    };
  }
  const background = sizeOf(manifest) > foregroundBytes;
  const { generation, engine } = manifest;
  return {
    layers,
    origin: { imagePath, background, writtenBytes },
    memory: background ? "loading" : "loaded",
    layerBytes: layerBytesOf(manifest.container),
    generation,
    cpuFeatures: engine.cpuFeatures,
    release,
  };
}

/**
 * Unpacks the layers of a checkpoint, and the checkpoint itself if it is one, which is open already.
 * @throws RametError `InvalidArgument` if the grants are not those of its layers; those of `provideLayer`
 */
async function unpackedLayers(
  session: ReadSession,
  grants: readonly Grant[],
  { grant, ...places }: { grant: Grant } & LayerPlaces,
): Promise<UnpackedLayer[]> {
  const { checkpointId, layers = [] } = session.manifest;
  const given = grants.map(manifestDigestIn);
  if (
    !isDeepStrictEqual(
      given,
      layers.map(({ manifestDigest }) => manifestDigest),
    )
  ) {
    const why = `it needs the layers ${layers.map((layer) => layer.checkpointId).join(", ")}`;
    throw new RametError("InvalidArgument", `restoring checkpoint ${checkpointId} failed: ${why}`);
  }
  const below = layers.map((ref, index) => layerOf(ref, grants[index], places));
  const own = { checkpointId, manifestDigest: manifestDigestIn(grant) ?? "", sizeBytes: sizeOf(session.manifest) };
  const isOwn = isLayer(session.manifest);
  const all = isOwn ? [...below, layerOf(own, grant, places, session)] : below;
  // An error closes the checkpoint, which another of them may still read.
  await Promise.allSettled(all);
  return Promise.all(all);
}

function manifestDigestIn(grant: Grant): string | undefined {
  return "manifestDigest" in grant ? grant.manifestDigest : undefined;
}

type LayerPlaces = Pick<RestoreSourceOptions, "paths" | "cache">;

/** @param session the checkpoint of the layer, if it is open already */
function layerOf(
  ref: LayerRef,
  grant: Grant | undefined,
  { paths, cache }: LayerPlaces,
  session?: ReadSession,
): Promise<UnpackedLayer> {
  if (grant === undefined) throw new RametError("Internal", "a layer has no grant");
  // The node's cache has an encrypted layer only as it is in the bucket.
  const isEncrypted = grant.encryption !== undefined;
  const open = async () =>
    session === undefined
      ? openForRead(grant, { scratchPath: paths.directory, shared: isEncrypted ? cache : undefined })
      : { ...session, release: () => Promise.resolve() };
  return provideLayer(ref, paths, open, isEncrypted ? undefined : cache);
}

/** Releases before the writable layer was on disk captured files alone as one tar. */
const tarName = "filesystem.tar";

function savedFiles({ files }: Manifest, image: Exclude<SavedFiles, { tar: string }>): SavedFiles {
  const hasTar = files.some(({ name }) => name === tarName);
  return hasTar ? { tar: `${image.imagePath}/${tarName}` } : image;
}

type Needing = Pick<Manifest, "checkpointId" | "contents" | "engine">;

/** Returns an error for the first need of a checkpoint that this cell does not meet. Files need only the architecture. */
export function unmetNeed({ checkpointId, contents, engine }: Needing, own: EngineBuild): RametError | undefined {
  const unmet = (need: string, has: string, hint: string, code: ErrorCode = "NeedNotMet"): RametError =>
    new RametError(code, `restoring checkpoint ${checkpointId} failed: it needs ${need}, ${has}`, { hint });
  if (engine.architecture !== own.architecture) {
    return unmet(
      `a node with architecture ${engine.architecture}`,
      `but this one is ${own.architecture}`,
      `Add to the clone's template the nodeSelector kubernetes.io/arch: ${engine.architecture}`,
    );
  }
  if (!contents.includes("memory")) return undefined;
  if (engine.version !== own.version) {
    return unmet(
      `gVisor ${engine.version}`,
      `but the cell has ${own.version}`,
      "Run the cell image that captured it, or capture it again with this one; a checkpoint of [filesystem] alone works with any build",
    );
  }
  if (engine.guest !== undefined && engine.guest !== own.guest) {
    return unmet(
      `guest ${short(engine.guest)}`,
      `but the cell has ${short(own.guest)}`,
      "Run the release of Ramet that captured it, or capture it again with this one; a checkpoint of [filesystem] alone works with any build",
    );
  }
  const missing = missingFeatures(engine.cpuFeatures, own.cpuFeatures);
  if (missing.length === 0) return undefined;
  return unmet(
    `the CPU feature${missing.length > 1 ? "s" : ""} ${missing.join(", ")}`,
    `which the node's CPU does not have`,
    "Schedule the clone on a node with a CPU like that of the node that captured it, or capture it again on this one; a checkpoint of [filesystem] alone works on any CPU",
    "CpuFeaturesMissing",
  );
}

/**
 * Programs in memory have files of their image open, and gVisor opens the files of this one at the same paths. Files and layers have
 * what differs from their image. Images whose digests are not known are compared by their names.
 */
export function otherImage(
  manifest: Pick<Manifest, "checkpointId" | "contents" | "image" | "files" | "layers">,
  own: Manifest["image"],
): RametError | undefined {
  const { checkpointId, contents, image, layers } = manifest;
  const isKnown = image.digest !== undefined && own.digest !== undefined;
  if (isKnown ? image.digest === own.digest : image.name === own.name) return undefined;
  const isOnLayers = layers !== undefined || isLayer(manifest);
  const needing = contents.includes("memory") ? "memory needs" : isOnLayers ? "layer needs" : "files need";
  const isReplaced = image.name === own.name;
  const [needed, has] = [image, own].map(({ name, digest }) => `${name}${isKnown ? ` as ${short(digest ?? "")}` : ""}`);
  const failing = `restoring checkpoint ${checkpointId} failed: its ${needing} the image ${needed ?? ""}, but`;
  if (!isReplaced)
    return new RametError("NeedNotMet", `${failing} the sandbox has ${has ?? ""}`, {
      hint: `Use a template with the image ${image.name}, or restore without a template of its own`,
    });
  return new RametError("ImageReplaced", `${failing} this one is ${short(own.digest ?? "")}`, {
    hint: "The image was replaced under its name: give the earlier image this name again, on one machine with ramet local image add, or take another checkpoint; on a cluster, a template that names its image by digest prevents this",
  });
}

type Sized = Pick<Manifest, "checkpointId" | "container" | "files">;

/**
 * Memory keeps the size of its layer, which must not exceed the limit of the template. A default bounds no memory: it can have been
 * lowered since the capture. Files alone must fit.
 */
export function tooLarge(
  manifest: Sized,
  contents: readonly string[],
  { layerBytes, isLayerLimited }: Pick<RestoreSourceOptions, "layerBytes" | "isLayerLimited">,
): RametError | undefined {
  const isMemory = contents.includes("memory");
  if (isMemory ? !isLayerLimited : isLayer(manifest)) return undefined;
  const neededBytes = isMemory ? layerBytesOf(manifest.container) : sizeOf(manifest);
  if (neededBytes <= layerBytes) return undefined;
  const [needed, own] = [neededBytes, layerBytes].map(inQuantity);
  const why = `it needs a writable layer of ${needed}, but the sandbox has ${own}`;
  return new RametError("NeedNotMet", `restoring checkpoint ${manifest.checkpointId} failed: ${why}`, {
    hint: "Raise the container's resources.limits.ephemeral-storage",
  });
}

function short(digest: string): string {
  return digest.slice(0, "sha256:".length + 12);
}
