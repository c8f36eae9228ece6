import * as z from "zod";
import { defined } from "../../base/defined.ts";
import { RametError } from "../../base/errors.ts";
import { type Checkpoint, type CheckpointPart, volumeParts } from "../kinds/checkpoint.ts";
import { mostVolumes } from "../kinds/sandbox-parts.ts";
import { ImportedVolume } from "../kinds/volume-import.ts";

const format = "ramet.dev/exported-volumes";

/**
 * The volumes of a checkpoint as an import needs them. It identifies their snapshots and grants nothing: a user who imports them needs
 * the verb `import`, and a driver that can read them.
 */
export const ExportedVolumes = z.object({
  format: z.literal(format),
  version: z.literal(1),
  checkpoint: z.string().max(253).optional().describe("The checkpoint that they are of, for people."),
  volumes: z.array(ImportedVolume).min(1).max(mostVolumes),
});
export type ExportedVolumes = z.infer<typeof ExportedVolumes>;

/** @throws RametError `CheckpointNotReady`; `NotSupported` for a checkpoint without volumes */
export function exportedVolumes({ metadata: { name }, status }: Checkpoint): ExportedVolumes {
  if (status?.phase !== "Succeeded")
    throw new RametError("CheckpointNotReady", `The checkpoint ${name} cannot be exported: it has not succeeded`, {
      hint: `See its state with: ramet checkpoint get ${name}`,
    });
  const volumes = volumeParts(status.ramet?.parts).map(exportedVolume);
  if (volumes.length === 0)
    throw new RametError("NotSupported", `The checkpoint ${name} cannot be exported: it has no volumes`, {
      hint: "Capture volumes with --contents volumes; memory and files are in the store of their cluster",
    });
  return ExportedVolumes.parse({ format, version: 1, checkpoint: status.checkpointId ?? name, volumes });
}

function exportedVolume({ handle, sizeBytes, consistency, cutAt, volume }: CheckpointPart) {
  const { volume: name, driver, volumeMode, storageClassName, accessModes = [] } = volume ?? {};
  return {
    volume: name,
    driver,
    snapshotHandle: handle,
    // A driver may not know the size.
    ...(sizeBytes > 0 && { sizeBytes }),
    ...defined({ volumeMode, storageClassName }),
    ...(accessModes.length > 0 && { accessModes }),
    consistency,
    cutAt,
  };
}

/** @param text JSON or YAML, already parsed. @throws RametError `InvalidArgument` */
export function parseExportedVolumes(value: unknown): ExportedVolumes {
  const { data, error } = ExportedVolumes.safeParse(value);
  if (data !== undefined) return data;
  const [issue] = error.issues;
  const where = issue === undefined || issue.path.length === 0 ? "" : `${issue.path.join(".")}: `;
  throw new RametError("InvalidArgument", `The exported checkpoint is not valid: ${where}${issue?.message ?? ""}`, {
    hint: "Use the output of: ramet checkpoint export NAME",
  });
}
