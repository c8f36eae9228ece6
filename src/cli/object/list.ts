import { withCluster, type ClusterOptions } from "../cluster/cluster.ts";
import { exitCodes } from "../exit-codes.ts";
import { printLine, writeAll, type Io } from "../io.ts";
import { renderList, type OutputFormat } from "../output/render.ts";
import { userKinds, type UserKindName } from "./user-kind.ts";

export interface ListOptions extends ClusterOptions {
  kind: UserKindName;
  output: OutputFormat;
  allNamespaces?: boolean;
  /** Kubernetes' label selector. */
  selector?: string;
}

/** `ramet sandbox ls` and its like: the objects of one kind, by namespace and name. */
export async function listObjects(io: Io, options: ListOptions): Promise<number> {
  const { noun, kind, columns } = userKinds[options.kind];
  const everywhere = options.allNamespaces === true;
  return withCluster(io, options, async (cluster) => {
    const { items } = await cluster.raw(kind).list({
      namespace: everywhere ? undefined : cluster.namespace,
      labelSelector: options.selector,
      signal: io.signal,
    });
    if (items.length === 0 && options.output === "table") {
      printLine(io.stderr, `No ${noun} ${everywhere ? "in any namespace" : `in namespace ${cluster.namespace}`}.`);
      return exitCodes.ok;
    }
    const { output } = options;
    await writeAll(io.stdout, renderList(items, { output, columns, now: io.clock.now(), withNamespace: everywhere }));
    return exitCodes.ok;
  });
}
