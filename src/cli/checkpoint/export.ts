import { stringify } from "yaml";
import { Checkpoint } from "../../api/kinds/checkpoint.ts";
import { exportedVolumes } from "../../api/volumes/exported-volumes.ts";
import { type ClusterOptions, withCluster } from "../cluster/cluster.ts";
import { exitCodes } from "../exit-codes.ts";
import { type Io, printLine, writeAll } from "../io.ts";
import { findObject } from "../object/user-kind.ts";

export interface ExportOptions extends ClusterOptions {
  /** Its name or id. */
  name: string;
  output: "yaml" | "json";
}

/** `ramet checkpoint export`: prints what an import needs of the volumes of a checkpoint. */
export async function exportCheckpoint(io: Io, { name, output, ...options }: ExportOptions): Promise<number> {
  return withCluster(io, options, async (cluster) => {
    const checkpoint = Checkpoint.parse(await findObject(cluster, "checkpoint", name, io.signal));
    const exported = exportedVolumes(checkpoint);
    await writeAll(io.stdout, output === "json" ? `${JSON.stringify(exported, undefined, 2)}\n` : stringify(exported));
    const others = checkpoint.status?.ramet?.contents ?? [];
    if (others.length > 0)
      printLine(io.stderr, `Not exported: ${others.join(" and ")}, which stay in the store of this cluster.`);
    return exitCodes.ok;
  });
}
