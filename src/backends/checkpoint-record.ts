import type { CheckpointResult } from "../api/cell/cell-api.ts";
import { comparedParts } from "../api/cell/restore-spec.ts";
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
    // From what ran, not from a template that may have changed since.
    template: comparedParts(manifest.container),
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
