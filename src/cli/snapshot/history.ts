import type { SnapshotVersion } from "../../api/kinds/named-snapshot-status.ts";
import { withCluster, type ClusterOptions } from "../cluster/cluster.ts";
import { exitCodes } from "../exit-codes.ts";
import { writeAll, type Io } from "../io.ts";
import { age } from "../output/age.ts";
import { size } from "../output/size.ts";
import { table } from "../output/table.ts";
import { seconds } from "./seconds.ts";

export interface SnapshotHistoryOptions extends ClusterOptions {
  name: string;
}

/** `ramet snapshot history`: the versions that are kept, newest first; `*` marks the one that serves. */
export async function snapshotHistory(io: Io, options: SnapshotHistoryOptions): Promise<number> {
  return withCluster(io, options, async (cluster) => {
    const { status } = await cluster.get(cluster.snapshots, options.name, io.signal);
    const now = io.clock.now();
    const rows = (status?.versions ?? []).toReversed().map((version) => rowOf(version, status?.version, now));
    const headings = ["VERSION", "DIGEST", "CHECKPOINT", "SIZE", "BUILD", "FROM", "SECRETS", "AGE"];
    await writeAll(io.stdout, table(headings, rows));
    return exitCodes.ok;
  });
}

function rowOf(one: SnapshotVersion, current: number | undefined, now: Date): string[] {
  return [
    `${one.version}${one.version === current ? " *" : ""}`,
    one.digest.slice(0, "sha256:".length + 12),
    one.checkpointId,
    one.sizeBytes === undefined ? "" : size(one.sizeBytes),
    seconds(one.buildMilliseconds),
    one.parent ?? "",
    one.secrets?.join(",") ?? "",
    age(one.createdAt, now),
  ];
}
