import type { CheckpointResult } from "../api/cell.ts";
import type { RestoreSpec } from "../api/restore-spec.ts";
import { sizeOf, type Manifest } from "../store/manifest.ts";
import type { CheckpointRecord } from "./backend.ts";

/** What a manifest says, and what the cut that made it measured if that is known. */
export function checkpointRecord(
  manifest: Manifest,
  manifestDigest: string,
  measured?: CheckpointResult,
): CheckpointRecord {
  const { contents, cutAt, engine, templateDigest, image, consistency } = manifest;
  return {
    backend: "cell",
    contents,
    manifestDigest,
    sizeBytes: sizeOf(manifest),
    cutAt,
    ...(measured && { readyAt: measured.readyAt, pausedMilliseconds: measured.pausedMilliseconds }),
    templateDigest,
    template: capturedSpec(manifest),
    image: image.name,
    ...(image.digest !== undefined && { imageDigest: image.digest }),
    consistency,
    needs: {
      architecture: engine.architecture,
      engine: engine.version,
      platform: engine.platform,
      ...(engine.cpuFeatures && { cpuFeatures: engine.cpuFeatures }),
    },
    ...(measured && { phases: measured.phases }),
  };
}

/** From what ran, not from a template that may have changed since. */
function capturedSpec({ container }: Manifest): RestoreSpec {
  const { image, command, args, workingDir, user, readOnlyRoot, mounts } = container;
  return {
    image,
    command,
    args,
    ...(workingDir !== undefined && { workingDir }),
    user,
    readOnlyRoot,
    mounts: mounts.map(({ target, readOnly }) => ({ target, readOnly })),
  };
}
