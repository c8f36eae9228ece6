import { controllersLease, systemNamespace } from "../../api/names/system-names.ts";
import { RametError } from "../../base/errors.ts";
import type { KubeObject } from "../../kube/object.ts";
import { type Cluster, type ClusterOptions, isUnknownKind, withCluster } from "../cluster/cluster.ts";
import { type Io, writeAll } from "../io.ts";
import { findObject, type UserKindName } from "../object/user-kind.ts";
import { Explainer } from "./gather.ts";
import { FactReader } from "./read.ts";
import { type Explained, renderExplained } from "./render.ts";
import { isVolumeKind, type VolumeKindName } from "./volume-kinds.ts";
import { explainVolume } from "./volume-read.ts";
import { volumeKinds } from "./volume-resources.ts";

export interface ExplainOptions extends ClusterOptions {
  objects: readonly { kind: UserKindName | VolumeKindName; name: string }[];
  output: "table" | "json";
}

/** `ramet explain`: names the cause of the state of each object, and the one thing to do. */
export async function explainObjects(io: Io, options: ExplainOptions): Promise<void> {
  return withCluster(io, options, async (cluster) => {
    const now = io.clock.now();
    const controllers = new FactReader(io, cluster.client).lease(controllersLease, systemNamespace);
    const explained = options.objects.map(async ({ kind, name }): Promise<Explained> => {
      const reader = new FactReader(io, cluster.client);
      if (isVolumeKind(kind)) {
        const object = await findVolumeObject(cluster, kind, name, io.signal);
        const explanation = await explainVolume(reader, kind, object, now);
        return { kind, object, explanation, unknown: [...reader.unknown] };
      }
      const object = await findObject(cluster, kind, name);
      const explainer = new Explainer(cluster, reader, { now, controllers: await controllers });
      const explanation = await explainer.explain(kind, object);
      return { kind, object, explanation, unknown: [...reader.unknown] };
    });
    const [all] = await Promise.all([Promise.all(explained), controllers]);
    await writeAll(io.stdout, renderExplained(all, options.output, io.clock.now()));
  });
}

/** @throws RametError `NotFound`; `NotSupported` if the cluster has no VolumeSnapshots */
async function findVolumeObject(
  cluster: Cluster,
  kind: VolumeKindName,
  name: string,
  signal: AbortSignal,
): Promise<KubeObject> {
  const ref = volumeKinds[kind];
  const at = ref.namespaced ? { namespace: cluster.namespace, name } : { name };
  try {
    return await cluster.client.resource(ref).get(at, { signal });
  } catch (error) {
    if (isUnknownKind(error))
      throw new RametError("NotSupported", `The cluster has no ${ref.kind}s: their CRDs are not installed`, {
        hint: "Install external-snapshotter, for example with the Pulumi component SnapshotStack",
        cause: error,
      });
    if (!(error instanceof RametError) || error.code !== "NotFound") throw error;
    const where = ref.namespaced ? ` in namespace ${cluster.namespace}` : "";
    throw new RametError("NotFound", `The ${ref.kind} ${name} does not exist${where}`, {
      hint: `List the existing ones with: kubectl get ${ref.plural}${ref.namespaced ? ` -n ${cluster.namespace}` : ""}`,
      cause: error,
    });
  }
}
