import { parse } from "yaml";
import * as z from "zod";
import { type CheckpointManifest, Checkpoint, type CheckpointPart, volumeParts } from "../../api/kinds/checkpoint.ts";
import { mostVolumes } from "../../api/kinds/sandbox-parts.ts";
import { ImportedVolume } from "../../api/kinds/volume-import.ts";
import { apiVersion } from "../../api/schema/kind.ts";
import { defined } from "../../base/defined.ts";
import { RametError } from "../../base/errors.ts";
import { type Cluster, type ClusterOptions, withCluster } from "../cluster/cluster.ts";
import { type Io, printLine, writeAll, readInput } from "../io.ts";
import { findObject } from "../object/user-kind.ts";
import { checkName, naming, type WaitFlags } from "../options.ts";
import { documentOf, type OutputFormat } from "../output/render.ts";
import { platformOf } from "../platform/platform-of.ts";
import { checkTtl, reportCreated, withId } from "./create.ts";

export interface ImportOptions extends ClusterOptions, WaitFlags {
  /** A path; `-` reads stdin. */
  file: string;
  name?: string;
  /** The SandboxTemplate of clones. @default each clone names its own */
  template?: string;
  takeOwnership?: boolean;
  ttl?: string;
  output: OutputFormat;
}

/** `ramet checkpoint import`: makes a checkpoint of exported volumes. The last line of the output is its id. */
export async function importCheckpoint(io: Io, options: ImportOptions): Promise<number> {
  const { name, template, ttl } = options;
  if (name !== undefined) checkName(name, "--name");
  if (template !== undefined) checkName(template, "--template");
  checkTtl(ttl);
  const exported = await read(io, options.file);
  return withCluster(io, options, async (cluster) => {
    const platform = await platformOf(io, cluster);
    platform.expectImport();
    const manifest = manifestOf(exported, cluster.namespace, options);
    const created = await cluster.create(cluster.checkpoints, manifest);
    return reportCreated(io, cluster, withId(created, platform), options);
  });
}

async function read(io: Io, path: string): Promise<ExportedVolumes> {
  const text = await readInput(io, path);
  try {
    return parseExportedVolumes(parse(text));
  } catch (error) {
    if (error instanceof RametError) throw error;
    throw new RametError("InvalidArgument", `${path} is neither YAML nor JSON: ${RametError.from(error).message}`);
  }
}

function manifestOf(
  { checkpoint = "import", volumes }: ExportedVolumes,
  namespace: string,
  { name, template, takeOwnership, ttl }: ImportOptions,
): CheckpointManifest {
  return {
    apiVersion,
    kind: "Checkpoint",
    metadata: { ...naming(name, checkpoint), namespace },
    spec: {
      volumeImport: {
        volumes,
        ...(takeOwnership === true && { takeOwnership }),
        ...(template !== undefined && { templateRef: { name: template } }),
      },
      ...defined({ ttlAfterFinished: ttl }),
    },
  };
}

/** `ramet checkpoint export`: prints what an import needs of the volumes of a checkpoint. */
export async function exportCheckpoint(
  io: Io,
  cluster: Cluster,
  { name, output }: { name: string; output: "yaml" | "json" },
): Promise<void> {
  const checkpoint = Checkpoint.parse(await findObject(cluster, "checkpoint", name));
  const exported = exportedVolumes(checkpoint);
  await writeAll(io.stdout, documentOf(exported, output));
  const others = checkpoint.status?.ramet?.contents ?? [];
  if (others.length > 0)
    printLine(io.stderr, `Not exported: ${others.join(" and ")}, which stay in the store of this cluster.`);
}

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
