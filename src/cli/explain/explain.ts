import { type ClusterOptions, withCluster } from "../cluster/cluster.ts";
import { exitCodes } from "../exit-codes.ts";
import { type Io, writeAll } from "../io.ts";
import { findObject, type UserKindName } from "../object/user-kind.ts";
import { explainVolume, findVolumeObject } from "./explain-volume.ts";
import { Explainer } from "./gather.ts";
import { FactReader } from "./read.ts";
import { type Explained, renderExplained } from "./render.ts";
import { isVolumeKind, type VolumeKindName } from "./volume-kinds.ts";
import { VolumeFactReader } from "./volume-read.ts";

export interface ExplainOptions extends ClusterOptions {
  objects: readonly { kind: UserKindName | VolumeKindName; name: string }[];
  output: "table" | "json";
}

/** `ramet explain`: names the cause of the state of each object, and the one thing to do. */
export async function explainObjects(io: Io, options: ExplainOptions): Promise<number> {
  return withCluster(io, options, async (cluster) => {
    const reader = new FactReader(io, cluster);
    const [common, ...objects] = await Promise.all([
      reader.common(),
      ...options.objects.map(async ({ kind, name }) => ({
        kind,
        object: isVolumeKind(kind)
          ? await findVolumeObject(cluster, kind, name, io.signal)
          : await findObject(cluster, kind, name, io.signal),
      })),
    ]);
    const explained = await Promise.all(
      objects.map(async ({ kind, object }): Promise<Explained> => {
        if (isVolumeKind(kind)) {
          const volumes = new VolumeFactReader(cluster.client, reader, common.now);
          const explanation = await explainVolume(volumes, kind, object, common.now);
          return { kind, object, explanation, unknown: [...volumes.unknown] };
        }
        const explainer = new Explainer(cluster, reader, common);
        return { kind, object, explanation: await explainer.explain(kind, object), unknown: [...explainer.unknown] };
      }),
    );
    await writeAll(io.stdout, renderExplained(explained, options.output, io.clock.now()));
    return exitCodes.ok;
  });
}
