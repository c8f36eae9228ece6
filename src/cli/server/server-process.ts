import type { Log } from "../../base/log.ts";
import { inClusterConnection, type Connection } from "../../kube/connection.ts";
import { connectionFromKubeconfig } from "../../kube/kubeconfig.ts";
import type { ClusterOptions } from "../cluster/cluster.ts";
import { kubeconfigSource } from "../cluster/kubeconfig-source.ts";
import { exitCodes } from "../exit-codes.ts";
import type { Io } from "../io.ts";

/**
 * Runs a server until `io.signal` aborts. An exception that nothing has caught is logged with its stack and starts the same
 * shutdown, because Node would otherwise end the process and with it the requests of all others.
 * @returns the exit code, which is that of a failure after such an exception
 */
export async function runServer(io: Io, log: Log, serve: (signal: AbortSignal) => Promise<void>): Promise<number> {
  const failing = new AbortController();
  let failures = 0;
  let cancelExit = (): void => undefined;
  const fail = (error: unknown): void => {
    failures += 1;
    if (failures <= mostLogged) log.error({ err: error }, "the server shuts down because of an unexpected error");
    if (failures > 1) return;
    failing.abort();
    cancelExit = io.clock.schedule(shutdownMilliseconds, () => process.exit(exitCodes.failed));
  };
  process.on("uncaughtException", fail).on("unhandledRejection", fail);
  try {
    await serve(AbortSignal.any([io.signal, failing.signal]));
    return failures === 0 ? exitCodes.ok : exitCodes.failed;
  } finally {
    cancelExit();
    process.off("uncaughtException", fail).off("unhandledRejection", fail);
  }
}

/** Longer than a gateway takes for its shutdown. */
const shutdownMilliseconds = 30_000;
/** An output that cannot be written fails with each line. */
const mostLogged = 10;

/** In a Pod, its service account; else as for every other command. */
export async function serverConnection(
  io: Io,
  { kubeconfig, context }: Pick<ClusterOptions, "kubeconfig" | "context">,
): Promise<Connection> {
  const { environment, clock } = io;
  const isPod = environment["KUBERNETES_SERVICE_HOST"] !== undefined;
  if (isPod && kubeconfig === undefined && environment["KUBECONFIG"] === undefined) {
    return inClusterConnection({ environment, clock });
  }
  const source = await kubeconfigSource(environment, kubeconfig);
  return connectionFromKubeconfig({ ...source, clock, ...(context === undefined ? {} : { context }) });
}
