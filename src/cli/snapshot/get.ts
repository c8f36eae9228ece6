import { withCluster, type ClusterOptions } from "../cluster/cluster.ts";
import { exitCodes } from "../exit-codes.ts";
import { writeAll, type Io } from "../io.ts";
import { findObject } from "../object/find.ts";
import { renderList, renderObject, type OutputFormat } from "../output/render.ts";
import { snapshotColumns } from "./columns.ts";
import { stepsTable } from "./steps-table.ts";

export interface GetSnapshotsOptions extends ClusterOptions {
  names: readonly string[];
  output: OutputFormat;
}

/** `ramet snapshot get`: as every kind is shown, and in a table with the steps of the latest build below. */
export async function getSnapshots(io: Io, { output, ...options }: GetSnapshotsOptions): Promise<number> {
  return withCluster(io, options, async (cluster) => {
    const found = await Promise.all(options.names.map((name) => findObject(cluster, "snapshot", name, io.signal)));
    const rendering = { output, columns: snapshotColumns, now: io.clock.now() };
    const [first] = found;
    const single = found.length === 1 && first !== undefined;
    await writeAll(io.stdout, single ? renderObject(first, rendering) : renderList(found, rendering));
    const steps = output === "table" ? stepsTable(found) : "";
    if (steps !== "") await writeAll(io.stdout, `\n${steps}`);
    return exitCodes.ok;
  });
}
