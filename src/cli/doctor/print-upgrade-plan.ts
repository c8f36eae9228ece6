import { planUpgrade, readUpgrade } from "../../preflight/plan-upgrade.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { type Io, printLine, writeAll } from "../io.ts";
import { inOrder, table } from "../output/render.ts";

export interface UpgradeOptions {
  cellImage: string;
  cellEngine?: string;
  output: "table" | "json";
}

/** `ramet upgrade --plan`: prints what an upgrade to a cell image does in all namespaces. Changes nothing. */
export async function printUpgradePlan(io: Io, cluster: Cluster, options: UpgradeOptions): Promise<void> {
  const { cellImage, cellEngine, output } = options;
  const planned = planUpgrade({ ...(await readUpgrade(cluster.client, io.signal)), cellImage, cellEngine });
  const steps = [...Map.groupBy(planned, ({ kind }) => kind).values()].flatMap((one) => inOrder(one, (step) => step));
  if (output === "json") {
    await writeAll(io.stdout, `${JSON.stringify({ cellImage, items: steps }, undefined, 2)}\n`);
  } else if (steps.length === 0) {
    printLine(io.stdout, "Nothing in the cluster depends on another engine.");
  } else {
    const rows = steps.map(({ kind, namespace = "", name, engine = "", what }) => [
      kind,
      namespace,
      name,
      engine,
      what,
    ]);
    await writeAll(io.stdout, table(["KIND", "NAMESPACE", "NAME", "ENGINE", "WHAT"], rows));
  }
}
