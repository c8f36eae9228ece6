import type { SweepReport } from "../../store/checkpoint-store.ts";
import { size } from "../output/size.ts";

/** What the store lost or would lose, in one sentence; undefined where that is nothing. */
export function describeStore(
  { path, removedCheckpoints, removedContents, removedRests, freedBytes }: { path: string } & SweepReport,
  dryRun: boolean,
): string | undefined {
  const parts = [
    counted(removedCheckpoints.length, "checkpoint that has no object", "checkpoints that have no object"),
    counted(removedContents, "content that no checkpoint names", "contents that no checkpoint names"),
    counted(removedRests, "rest of what was interrupted", "rests of what was interrupted"),
  ].filter((part) => part !== "");
  if (parts.length === 0) return undefined;
  return `The store ${path} ${dryRun ? "would lose" : "lost"} ${parts.join(", ")}: ${size(freedBytes)}.`;
}

function counted(count: number, one: string, many: string): string {
  if (count === 0) return "";
  return count === 1 ? `1 ${one}` : `${count} ${many}`;
}
