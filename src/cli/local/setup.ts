import { defaultClusterName } from "../../local/cluster-directory.ts";
import { prepareCluster } from "../../local/prepare-cluster.ts";
import { exitCodes } from "../exit-codes.ts";
import { printLine, type Io } from "../io.ts";

/** `ramet local setup`: the part of `up` that takes long the first time. */
export async function localSetup(io: Io): Promise<number> {
  const progress = (line: string): void => {
    printLine(io.stderr, line);
  };
  await prepareCluster({ name: defaultClusterName, clock: io.clock, signal: io.signal, progress });
  printLine(io.stderr, "Everything is there. Start a cluster with: ramet local up");
  return exitCodes.ok;
}
