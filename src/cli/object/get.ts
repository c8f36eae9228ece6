import { withCluster, type ClusterOptions } from "../cluster/cluster.ts";
import { exitCodes } from "../exit-codes.ts";
import { writeAll, type Io } from "../io.ts";
import { renderList, renderObject, type OutputFormat } from "../output/render.ts";
import { findObject } from "./find.ts";
import { userKinds, type UserKindName } from "./user-kind.ts";

export interface GetOptions extends ClusterOptions {
  kind: UserKindName;
  names: readonly string[];
  output: OutputFormat;
}

/** `ramet sandbox get` and its like. */
export async function getObjects(io: Io, options: GetOptions): Promise<number> {
  return withCluster(io, options, async (cluster) => {
    const objects = await Promise.all(options.names.map((name) => findObject(cluster, options.kind, name, io.signal)));
    const { columns } = userKinds[options.kind];
    const rendering = { output: options.output, columns, now: io.clock.now() };
    const [first] = objects;
    const single = objects.length === 1 && first !== undefined;
    await writeAll(io.stdout, single ? renderObject(first, rendering) : renderList(objects, rendering));
    return exitCodes.ok;
  });
}
