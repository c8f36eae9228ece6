import { homedir } from "node:os";
import { systemClock } from "../../src/base/clock.ts";
import { defined } from "../../src/base/defined.ts";
import { RametError } from "../../src/base/errors.ts";
import { type Connection, inClusterConnection } from "../../src/kube/connection.ts";
import { KubeClient } from "../../src/kube/kube-client.ts";
import { existingPaths, type KubeconfigSource, kubeconfigPaths } from "../../src/kube/kubeconfig-files.ts";
import { connectionFromKubeconfig, namespaceFromKubeconfig } from "../../src/kube/kubeconfig.ts";
import type { HandlerContext } from "./handler.ts";

export type ClusterEnvironment = Pick<HandlerContext, "configuration" | "environment">;

/**
 * Runs `use` with a client of the cluster that Pulumi's Kubernetes provider uses by default.
 * @throws like `connectionOf`
 */
export async function withCluster<T>(env: ClusterEnvironment, use: (client: KubeClient) => Promise<T>): Promise<T> {
  const client = new KubeClient(await connectionOf(env), { userAgent: "ramet-pulumi", connections: 4 });
  try {
    return await use(client);
  } finally {
    await client.close();
  }
}

/** The default namespace of Pulumi's Kubernetes provider. */
export async function defaultNamespace(env: ClusterEnvironment): Promise<string> {
  const configured = given(env, "namespace");
  if (configured !== undefined) return configured;
  const source = await sourceOf(env);
  if (source !== undefined) return (await namespaceFromKubeconfig({ ...source, ...choiceOf(env) })) ?? "default";
  return isInCluster(env) ? (await inCluster(env)).namespace : "default";
}

/**
 * The connection that Pulumi's Kubernetes provider uses by default: from the stack's `kubernetes:kubeconfig` (a path or
 * the text), `kubernetes:context` and `kubernetes:cluster`, else from `KUBECONFIG`, `~/.kube/config`, or the Pod's
 * service account. A provider object that the program creates is not visible here: dynamic resources do not receive it.
 *
 * @throws RametError `NotFound` if there is no kubeconfig
 */
export async function connectionOf(env: ClusterEnvironment): Promise<Connection> {
  const source = await sourceOf(env);
  if (source !== undefined) return connectionFromKubeconfig({ ...source, ...choiceOf(env) });
  if (isInCluster(env)) return inCluster(env);
  throw new RametError("NotFound", `No kubeconfig found: ${defaultPaths(env).join(" and ")} does not exist`, {
    hint: "Set KUBECONFIG, or run: pulumi config set kubernetes:kubeconfig PATH",
  });
}

function choiceOf(env: ClusterEnvironment): { context?: string; cluster?: string } {
  const [context, cluster] = [given(env, "context"), given(env, "cluster")];
  return defined({ context, cluster });
}

/** Undefined if there is no kubeconfig. */
async function sourceOf(env: ClusterEnvironment): Promise<KubeconfigSource | undefined> {
  const kubeconfig = given(env, "kubeconfig");
  if (kubeconfig !== undefined && isText(kubeconfig)) return { text: kubeconfig };
  if (kubeconfig !== undefined) return { path: kubeconfig.replace(/^~(?=\/|$)/, homedir()) };
  const path = await existingPaths(defaultPaths(env));
  return path.length > 0 ? { path } : undefined;
}

function defaultPaths({ environment }: ClusterEnvironment): string[] {
  return kubeconfigPaths(environment, environment["HOME"] ?? homedir());
}

/** Reads a setting as the provider does: an empty value counts as unset. */
function given({ configuration }: ClusterEnvironment, key: string): string | undefined {
  const value = configuration.get(`kubernetes:${key}`);
  return value === "" ? undefined : value;
}

function isInCluster({ environment }: ClusterEnvironment): boolean {
  return environment["KUBERNETES_SERVICE_HOST"] !== undefined;
}

function inCluster({ environment }: ClusterEnvironment): Promise<Connection> {
  return inClusterConnection({ environment, clock: systemClock });
}

function isText(kubeconfig: string): boolean {
  return kubeconfig.includes("\n") || kubeconfig.trimStart().startsWith("{");
}

/**
 * Reads from the cluster of `withCluster` within a time limit.
 * @throws RametError `Timeout` if the cluster does not respond in time
 */
export function readCluster<Seen>(
  env: ClusterEnvironment,
  read: (client: KubeClient, signal: AbortSignal) => Promise<Seen>,
  { withinMilliseconds = 10_000 } = {},
): Promise<Seen> {
  return withCluster(env, async (client) => {
    const over = new AbortController();
    const cancel = client.clock.schedule(withinMilliseconds, () => {
      over.abort();
    });
    try {
      return await read(client, over.signal);
    } catch (error) {
      throw over.signal.aborted ? unanswered(withinMilliseconds, error) : error;
    } finally {
      cancel();
    }
  });
}

function unanswered(milliseconds: number, cause: unknown): RametError {
  const what = `The cluster did not respond within ${milliseconds / 1000} s`;
  const hint = "Check that the server in the kubeconfig is reachable from here";
  return new RametError("Timeout", what, { hint, retryable: true, cause });
}
