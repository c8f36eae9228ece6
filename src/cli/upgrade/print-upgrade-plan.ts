import * as z from "zod";
import { enginesConfigMap, parseEngineList } from "../../api/cell/engine-list.ts";
import { systemNamespace } from "../../api/names/system-names.ts";
import { ObjectMeta } from "../../kube/object.ts";
import { coreResources } from "../../kube/resource-ref.ts";
import { type Cluster, type ClusterOptions, withCluster } from "../cluster/cluster.ts";
import { exitCodes } from "../exit-codes.ts";
import { type Io, printLine, writeAll } from "../io.ts";
import { table } from "../output/table.ts";
import { planUpgrade } from "./plan-upgrade.ts";

export interface UpgradeOptions extends ClusterOptions {
  cellImage: string;
  cellEngine?: string;
  output: "table" | "json";
}

/** `ramet upgrade --plan`: prints what an upgrade to a cell image does in all namespaces. Changes nothing. */
export async function printUpgradePlan(io: Io, options: UpgradeOptions): Promise<number> {
  const { cellImage, cellEngine, output } = options;
  return withCluster(io, options, async (cluster) => {
    const steps = planUpgrade({ ...(await read(cluster, io.signal)), cellImage, cellEngine });
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
    return exitCodes.ok;
  });
}

async function read(cluster: Cluster, signal: AbortSignal) {
  const { client, checkpoints, sandboxes, sets, snapshots } = cluster;
  const configMaps = client.resource(coreResources.configMaps, (value) => EngineMap.parse(value));
  const [known, ...lists] = await Promise.all([
    configMaps.find({ namespace: systemNamespace, name: enginesConfigMap }, { signal }),
    checkpoints.list({ signal }),
    sandboxes.list({ signal }),
    sets.list({ signal }),
    snapshots.list({ signal }),
  ]);
  const [ofCheckpoints, ofSandboxes, ofSets, ofSnapshots] = lists;
  return {
    engines: parseEngineList(known?.data),
    checkpoints: ofCheckpoints.items,
    sandboxes: ofSandboxes.items,
    sets: ofSets.items,
    snapshots: ofSnapshots.items,
  };
}

const EngineMap = z.looseObject({ metadata: ObjectMeta, data: z.record(z.string(), z.string()).nullish() });
