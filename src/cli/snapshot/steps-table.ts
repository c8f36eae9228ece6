import { NamedSnapshot } from "../../api/kinds/named-snapshot.ts";
import type { KubeObject } from "../../kube/object.ts";
import { table } from "../output/table.ts";
import { seconds } from "./seconds.ts";

/** The steps of the latest build of each snapshot; of several, each row has the snapshot's name. Nothing where no step is. */
export function stepsTable(snapshots: readonly KubeObject[]): string {
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
