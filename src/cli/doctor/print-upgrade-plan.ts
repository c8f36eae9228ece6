import { RametError } from "../../base/errors.ts";
import { goArchitecture } from "../../base/machine.ts";
import { planUpgrade, readUpgrade, type UpgradeStep } from "../../preflight/plan-upgrade.ts";
import { recordImage } from "../../registry/look-up-image.ts";
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
  const [state, missing] = await Promise.all([readUpgrade(cluster.client, io.signal), missingImage(io, cellImage)]);
  const planned = [...missing, ...planUpgrade({ ...state, cellImage, cellEngine })];
  const steps = [...Map.groupBy(planned, ({ kind }) => kind).values()].flatMap((one) => inOrder(one, (step) => step));
  if (output === "json") {
    await writeAll(io.stdout, `${JSON.stringify({ cellImage, items: steps }, undefined, 2)}\n`);
  } else if (steps.length === 0) {
    printLine(io.stdout, "Nothing in the cluster depends on another engine.");
  } else {
    const rows = summary(steps).map(({ kind, namespace = "", name, engine = "", what }) => [
      kind,
      namespace,
      name,
      engine,
      what,
    ]);
    await writeAll(io.stdout, table(["KIND", "NAMESPACE", "NAME", "ENGINE", "WHAT"], rows));
  }
}

/** Checkpoints of one namespace that an upgrade treats alike are one row of the table. A document has each of them. */
export function summary(steps: readonly UpgradeStep[]): UpgradeStep[] {
  const groups = Map.groupBy(steps, ({ kind, namespace, name, engine, what }) => {
    return JSON.stringify([kind, namespace, engine, what, kind === "Checkpoint" ? "" : name]);
  });
  return [...groups.values()].flatMap((alike) => {
    const [first] = alike;
    return first === undefined || alike.length === 1 ? alike : [{ ...first, name: `${alike.length} checkpoints` }];
  });
}

/** Asks the registry from this machine. Nodes can have other access, so only an image that does not exist is a part of the plan. */
export async function missingImage(io: Io, cellImage: string): Promise<UpgradeStep[]> {
  try {
    await recordImage(cellImage, {
      architecture: goArchitecture,
      environment: io.environment,
    });
    return [];
  } catch (thrown) {
    const error = RametError.from(thrown);
    if (error.code === "ImageNotFound") {
      const what = `does not exist: new sandboxes would not start. ${error.message}`;
      return [{ kind: "CellImage", name: cellImage, what }];
    }
    if (error.code !== "NeedNotMet") {
      printLine(io.stderr, `Whether nodes can pull ${cellImage} is unknown: ${error.message}`);
    }
    return [];
  }
}
