import { access, mkdtemp, rm, writeFile } from "node:fs/promises";
import { homedir, tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { RametError } from "../../src/api/errors.ts";
import { inClusterConnection, type Connection } from "../../src/kube/connection.ts";
import { systemClock } from "../../src/kube/clock.ts";
import { KubeClient } from "../../src/kube/kube-client.ts";
import { connectionFromKubeconfig } from "../../src/kube/kubeconfig.ts";
import type { HandlerParts } from "./handler.ts";

/** Where a cluster is found. */
export type Surroundings = Pick<HandlerParts, "configuration" | "environment">;

/**
 * Runs `use` with the cluster that Pulumi's Kubernetes provider would use by itself: the stack's `kubernetes:kubeconfig` (a
 * path, or the text itself) and `kubernetes:context`, else `KUBECONFIG`, `~/.kube/config`, or the Pod's own service account.
 * A provider object that a program makes and hands on is not seen here: dynamic resources are told of none.
 *
 * @throws RametError `NotFound` when no kubeconfig is there
 */
export async function withCluster<T>(around: Surroundings, use: (client: KubeClient) => Promise<T>): Promise<T> {
  const client = new KubeClient(await connectionOf(around), { userAgent: "ramet-pulumi", connections: 4 });
  try {
    return await use(client);
  } finally {
    await client.close();
  }
}

async function connectionOf({ configuration, environment }: Surroundings): Promise<Connection> {
  const context = configuration.get("kubernetes:context") ?? environment["PULUMI_K8S_CONTEXT"];
  const read = (path: string): Promise<Connection> =>
    connectionFromKubeconfig({ path, ...(context !== undefined && { context }) });
  const given = configuration.get("kubernetes:kubeconfig");
  if (given === undefined) return usualConnection(environment, read);
  return isText(given) ? fromText(given, read) : read(given.replace(/^~(?=\/)/, homedir()));
}

async function usualConnection(
  environment: Surroundings["environment"],
  read: (path: string) => Promise<Connection>,
): Promise<Connection> {
  const listed = (environment["KUBECONFIG"] ?? "").split(delimiter).filter((path) => path !== "");
  const paths = listed.length > 0 ? listed : [join(environment["HOME"] ?? homedir(), ".kube", "config")];
  for (const path of paths) if (await exists(path)) return read(path);
  if (environment["KUBERNETES_SERVICE_HOST"] !== undefined) {
    return inClusterConnection({ environment, clock: systemClock });
  }
  throw new RametError("NotFound", `No cluster is known: ${paths.join(" and ")} does not exist`, {
    hint: "Name a kubeconfig by KUBECONFIG or with: pulumi config set kubernetes:kubeconfig PATH",
  });
}

function isText(kubeconfig: string): boolean {
  return kubeconfig.includes("\n") || kubeconfig.trimStart().startsWith("{");
}

/** Kubeconfigs are read from files, which credentials may be beside; this one is gone as soon as it is read. */
async function fromText(text: string, read: (path: string) => Promise<Connection>): Promise<Connection> {
  const folder = await mkdtemp(join(tmpdir(), "ramet-kubeconfig-"));
  try {
    const path = join(folder, "kubeconfig");
    await writeFile(path, text, { mode: 0o600 });
    return await read(path);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}
