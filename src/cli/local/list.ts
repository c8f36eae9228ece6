import { localClusters } from "../../local/local-clusters.ts";
import { exitCodes } from "../exit-codes.ts";
import { type Io, printLine } from "../io.ts";
import { table } from "../output/table.ts";

/** `ramet local ls`: lists the clusters of this user on this machine. */
export async function listClusters(io: Io, { output }: { output: "table" | "json" }): Promise<number> {
  const clusters = await localClusters(io.environment);
  if (output === "json") printLine(io.stdout, JSON.stringify(clusters, undefined, 2));
  else if (clusters.length === 0) printLine(io.stderr, "No local cluster. Start one with: ramet local up");
  else {
    const rows = clusters.map(({ name, phase, kubeconfig }) => [name, phase, kubeconfig]);
    io.stdout.write(table(["NAME", "PHASE", "KUBECONFIG"], rows));
  }
  return exitCodes.ok;
}
