import { parse } from "yaml";
import { type CheckpointManifest, Checkpoint } from "../../api/kinds/checkpoint.ts";
import { apiVersion } from "../../api/schema/kind.ts";
import { type ExportedVolumes, parseExportedVolumes, exportedVolumes } from "../../api/volumes/exported-volumes.ts";
import { defined } from "../../base/defined.ts";
import { RametError } from "../../base/errors.ts";
import { type Cluster, type ClusterOptions, withCluster } from "../cluster/cluster.ts";
import { type Io, printLine, writeAll, readInput } from "../io.ts";
import { checkName, naming, type WaitFlags } from "../options.ts";
import { documentOf, type OutputFormat } from "../output/render.ts";
import { platformOf } from "../platform/platform-of.ts";
import { checkTtl, reportCreated, withId } from "./create.ts";
import { findObject } from "../object/user-kind.ts";

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
