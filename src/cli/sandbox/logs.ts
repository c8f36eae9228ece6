import { isServing } from "../../api/state/sandbox.ts";
import { Pod } from "../../api/schema/pod.ts";
import { parseDuration } from "../../base/duration.ts";
import { RametError } from "../../base/errors.ts";
import { coreResources } from "../../kube/resource-ref.ts";
import { type Cluster, type ClusterOptions, withCluster } from "../cluster/cluster.ts";
import type { AccessFlags } from "../cluster/gateway-credentials.ts";
import { sandboxLog } from "../cluster/guest-access.ts";
import { exitCodes } from "../report-error.ts";
import { type Io, printLine, writeAll } from "../io.ts";

export interface LogsOptions extends ClusterOptions, AccessFlags {
  name: string;
  follow?: boolean;
  tail?: number;
  /** A duration. */
  since?: string;
  timestamps?: boolean;
}

/**
 * `ramet sandbox logs`: prints the output of the entrypoint, through the gateway. The log of a sandbox that is not running is
 * that of its Pod, for which the user needs the permissions of `kubectl logs`.
 */
export async function printLogs(io: Io, options: LogsOptions): Promise<number> {
  const sinceMilliseconds = options.since === undefined ? undefined : parseDuration(options.since, "--since");
  return withCluster(io, options, async (cluster) => {
    const query = queryOf(io, options, sinceMilliseconds);
    const log = await sandboxLog(io, cluster, { sandbox: options.name, flags: options }, query);
    if (log === undefined && options.direct !== true)
      printLine(io.stderr, `The sandbox ${options.name} is not running: this is the log of its Pod.`);
    try {
      for await (const chunk of (log ??
        (await podLog(io, cluster, options, sinceMilliseconds))) as AsyncIterable<Buffer>)
        await writeAll(io.stdout, chunk);
    } catch (error) {
      // Interrupting is how a user ends --follow.
      if (io.signal.aborted) return exitCodes.interrupted;
      // The connection ends with the sandbox.
      if (log === undefined || (await isRunning(cluster, options.name))) throw interrupted(error);
    }
    return exitCodes.ok;
  });
}

function queryOf({ clock }: Io, options: LogsOptions, sinceMilliseconds: number | undefined): URLSearchParams {
  const query = new URLSearchParams();
  if (options.follow === true) query.set("follow", "true");
  if (options.timestamps === true) query.set("timestamps", "true");
  if (options.tail !== undefined) query.set("tailLines", String(options.tail));
  if (sinceMilliseconds !== undefined)
    query.set("sinceTime", new Date(clock.now().getTime() - sinceMilliseconds).toISOString());
  return query;
}

async function podLog(
  { signal }: Io,
  cluster: Cluster,
  options: LogsOptions,
  sinceMilliseconds: number | undefined,
): Promise<AsyncIterable<unknown>> {
  const { name, namespace } = (await cluster.get(cluster.sandboxes, options.name)).metadata;
  const pods = cluster.client.resource(coreResources.pods, (value) => Pod.parse(value));
  const pod = await pods.get({ namespace, name }, { signal });
  return cluster.client.stream({
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
    signal,
  });
}

/** A user without the right to read sandboxes is told that the connection ended. */
async function isRunning(cluster: Cluster, name: string): Promise<boolean> {
  try {
    return isServing(await cluster.get(cluster.sandboxes, name));
  } catch (error) {
    return RametError.from(error).code !== "NotFound";
  }
}

function interrupted(error: unknown): RametError {
  if (error instanceof RametError) return error;
  const { message } = RametError.from(error);
  return new RametError("Unavailable", `The connection to the log ended: ${message}`, {
    retryable: true,
    hint: "Run the command again; --tail 0 skips the lines before",
    cause: error,
  });
}
