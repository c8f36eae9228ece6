import { readdir } from "node:fs/promises";
import { PodDirectory } from "../../src/local/node/pod-directory.ts";
import { descendants, processesWith, type FoundProcess } from "../faults/processes.ts";
import type { ClusterDirectory } from "../../src/local/cluster-directory.ts";

/** The processes of a sandbox's Pod, the outermost first. Empty before the node has started it. */
export async function podFamily(
  { directory }: { directory: Pick<ClusterDirectory, "pods"> },
  sandboxName: string,
): Promise<FoundProcess[]> {
  const uids = await readdir(directory.pods).catch(() => []);
  const record = uids
    .map((uid) => new PodDirectory(directory.pods, uid).readRecord())
    .find((found) => found?.name === sandboxName);
  if (record === undefined) return [];
  const { pid } = record.process;
  const outer = (await processesWith()).filter((found) => found.pid === pid);
  return [...outer, ...(await descendants(pid))];
}

/** The cell's process, which runs Node. */
export function cellAmong(family: readonly FoundProcess[]): FoundProcess | undefined {
  return family.find(
    ({ commandLine }) => /cell\.c?js|cell\/main\.ts/.test(commandLine) && !commandLine.includes(" pod "),
  );
}
