import { RametError } from "../../base/errors.ts";
import type { NamedSnapshot } from "../../api/kinds/named-snapshot.ts";
import { logKey } from "../../controllers/named-snapshot/log-name.ts";
import { withCluster, type ClusterOptions } from "../cluster/cluster.ts";
import { exitCodes } from "../exit-codes.ts";
import { printLine, writeAll, type Io } from "../io.ts";
import { followBuild } from "./follow-build.ts";
import { keptLogs } from "./kept-logs.ts";

export interface SnapshotLogsOptions extends ClusterOptions {
  name: string;
  /** Counted from 1; absent: all. */
  step?: number;
  /** Of a version that is kept; absent: of the latest build. */
  version?: number;
  /** Until the latest build has ended. */
  follow?: boolean;
}

/** `ramet snapshot logs`: what the steps of a build printed; of much, the end. */
export async function snapshotLogs(io: Io, options: SnapshotLogsOptions): Promise<number> {
  const { name, step, version, follow = false } = options;
  return withCluster(io, options, async (cluster) => {
    const snapshot = await cluster.get(cluster.snapshots, name, io.signal);
    if (follow) return followBuild(io, cluster, { snapshot, step });
    const digest = digestOfBuild(snapshot, version);
    const logs = await keptLogs(cluster, { snapshot: name, digest }, io.signal);
    const keys = Object.keys(logs)
      .filter((key) => step === undefined || key === logKey(step - 1))
      .sort();
    if (keys.length === 0) printLine(io.stderr, "Nothing was printed.");
    for (const key of keys) {
      if (step === undefined) printLine(io.stderr, `--- step ${Number(/\d+/.exec(key)?.[0])}`);
      await writeAll(io.stdout, logs[key] ?? "");
    }
    return exitCodes.ok;
  });
}

function digestOfBuild({ metadata, status }: NamedSnapshot, version: number | undefined): string {
  const ofVersion = status?.versions?.find((one) => one.version === version);
  const digest = version === undefined ? status?.build?.digest : ofVersion?.digest;
  if (digest === undefined) throw noBuild(metadata.name, version);
  return digest;
}

function noBuild(name: string, version: number | undefined): RametError {
  const what = version === undefined ? "has not been built yet" : `keeps no version ${version}`;
  return new RametError("NotFound", `The snapshot ${name} ${what}`, { hint: `See: ramet snapshot history ${name}` });
}
