import { parseDuration } from "../../base/duration.ts";
import { Pod } from "../../api/schema/pod.ts";
import { coreResources } from "../../kube/resource-ref.ts";
import { withCluster, type ClusterOptions } from "../cluster/cluster.ts";
import { exitCodes } from "../exit-codes.ts";
import { writeAll, type Io } from "../io.ts";

export interface LogsOptions extends ClusterOptions {
  name: string;
  follow?: boolean;
  tail?: number;
  /** A duration. */
  since?: string;
  timestamps?: boolean;
}

/** `ramet sandbox logs`: prints the log of the sandbox's Pod, with the permissions that `kubectl logs` needs. */
export async function printLogs(io: Io, options: LogsOptions): Promise<number> {
  const sinceMilliseconds = options.since === undefined ? undefined : parseDuration(options.since, "--since");
  return withCluster(io, options, async (cluster) => {
    const { name, namespace } = (await cluster.get(cluster.sandboxes, options.name, io.signal)).metadata;
    const pods = cluster.client.resource(coreResources.pods, (value) => Pod.parse(value));
    const pod = await pods.get({ namespace, name }, { signal: io.signal });
    const body = await cluster.client.stream({
      verb: "get",
      resource: coreResources.pods,
      at: { namespace, name, subresource: "log" },
      query: {
        container: pod.spec.containers[0]?.name,
        follow: options.follow,
        tailLines: options.tail,
        sinceSeconds: sinceMilliseconds === undefined ? undefined : Math.max(1, Math.ceil(sinceMilliseconds / 1000)),
        timestamps: options.timestamps,
      },
      repeatable: false,
      signal: io.signal,
    });
    for await (const chunk of body as AsyncIterable<Buffer>) await writeAll(io.stdout, chunk);
    return exitCodes.ok;
  });
}
