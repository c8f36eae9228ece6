import { z } from "zod";
import { logName } from "../../controllers/named-snapshot/log-name.ts";
import { ObjectMeta } from "../../kube/object.ts";
import { coreResources } from "../../kube/resource-ref.ts";
import type { Cluster } from "../cluster/cluster.ts";

/** What the ended steps of a build printed, by `logKey`; of much, the end. */
export async function keptLogs(
  cluster: Cluster,
  { snapshot, digest }: { snapshot: string; digest: string },
  signal: AbortSignal,
): Promise<Record<string, string>> {
  const resource = cluster.client.resource(coreResources.configMaps, (value) => Logs.parse(value));
  const at = { namespace: cluster.namespace, name: logName(snapshot, digest) };
  return (await resource.find(at, { signal }))?.data ?? {};
}

const Logs = z.looseObject({ metadata: ObjectMeta, data: z.record(z.string(), z.string()).nullish() });
