import * as z from "zod";
import { enginesConfigMap, parseEngineList } from "../api/engine/engine-list.ts";
import { checkpointKind } from "../api/kinds/checkpoint.ts";
import { namedSnapshotKind } from "../api/kinds/named-snapshot.ts";
import { sandboxSetKind } from "../api/kinds/sandbox-set.ts";
import { sandboxKind } from "../api/kinds/sandbox.ts";
import { systemNamespace } from "../api/names/system-names.ts";
import type { KubeClient } from "../kube/kube-client.ts";
import { ObjectMeta } from "../kube/object.ts";
import { coreResources } from "../kube/resource-ref.ts";
import type { UpgradeState } from "./plan-upgrade.ts";

/** Reads the objects of all namespaces that an upgrade affects. Changes nothing. @throws RametError */
export async function readUpgrade(
  client: KubeClient,
  signal: AbortSignal,
): Promise<Omit<UpgradeState, "cellImage" | "cellEngine">> {
  const configMaps = client.resource(coreResources.configMaps, (value) => EngineMap.parse(value));
  const [known, checkpoints, sandboxes, sets, snapshots] = await Promise.all([
    configMaps.find({ namespace: systemNamespace, name: enginesConfigMap }, { signal }),
    client.of(checkpointKind).list({ signal }),
    client.of(sandboxKind).list({ signal }),
    client.of(sandboxSetKind).list({ signal }),
    client.of(namedSnapshotKind).list({ signal }),
  ]);
  return {
    engines: parseEngineList(known?.data),
    checkpoints: checkpoints.items,
    sandboxes: sandboxes.items,
    sets: sets.items,
    snapshots: snapshots.items,
  };
}

const EngineMap = z.looseObject({ metadata: ObjectMeta, data: z.record(z.string(), z.string()).nullish() });
