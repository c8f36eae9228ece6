import { NamedSnapshot } from "../../api/kinds/named-snapshot.ts";
import type { KubeObject } from "../../kube/object.ts";
import { type ClusterOptions, withCluster } from "../cluster/cluster.ts";
import { exitCodes } from "../exit-codes.ts";
import { type Io, writeAll } from "../io.ts";
import { snapshotColumns } from "../object/columns.ts";
import { warnOfIgnored } from "../object/ignored-fields.ts";
import { findObject } from "../object/user-kind.ts";
import { type OutputFormat, renderList, renderObject } from "../output/render.ts";
import { table } from "../output/table.ts";
import { seconds } from "./step-printer.ts";

export interface GetSnapshotsOptions extends ClusterOptions {
  names: readonly string[];
  output: OutputFormat;
}

/** `ramet snapshot get`: `get` as of every kind, in a table followed by the steps of the latest build. */
export async function getSnapshots(io: Io, { output, ...options }: GetSnapshotsOptions): Promise<number> {
  return withCluster(io, options, async (cluster) => {
    const found = await Promise.all(options.names.map((name) => findObject(cluster, "snapshot", name, io.signal)));
    const rendering = { output, columns: snapshotColumns, now: io.clock.now() };
    const [first] = found;
    const single = found.length === 1 && first !== undefined;
    await writeAll(io.stdout, single ? renderObject(first, rendering) : renderList(found, rendering));
    const steps = output === "table" ? stepsTable(found) : "";
    if (steps !== "") await writeAll(io.stdout, `\n${steps}`);
    if (output === "table") warnOfIgnored(io, "snapshot", found);
    return exitCodes.ok;
  });
}

/** The steps of the latest build of each snapshot, with the snapshot's name if there are several. Empty without steps. */
function stepsTable(snapshots: readonly KubeObject[]): string {
  const withName = snapshots.length > 1;
  const rows = snapshots.flatMap((snapshot) =>
    stepsOf(snapshot).map((cells) => (withName ? [snapshot.metadata.name, ...cells] : cells)),
  );
  if (rows.length === 0) return "";
  const headings = ["STEP", "ACTION", "STATE", "DURATION", "CACHED"];
  return table(withName ? ["NAME", ...headings] : headings, rows);
}

function stepsOf(snapshot: KubeObject): string[][] {
  const steps = NamedSnapshot.safeParse(snapshot).data?.status?.steps ?? [];
  return steps.map(({ step, state, milliseconds, cached }, index) => [
    `${index + 1}`,
    step,
    state,
    seconds(milliseconds),
    cached ? "yes" : "no",
  ]);
}
