import { request } from "node:https";
import { join } from "node:path";
import { stringify } from "yaml";
import { RametError } from "../../base/errors.ts";
import type { Clock } from "../../base/clock.ts";
import { replaceFile } from "../files.ts";
import { startChild, type Child, waitUntilReady } from "./child.ts";
import { etcdEndpoint } from "./etcd.ts";
import type { KeyPairFiles, Pki } from "./pki.ts";
import type { KeyPair } from "./certificate.ts";

export interface ApiServerOptions {
  /** Path of the `kube-apiserver` program. */
  program: string;
  /** The cluster's directory. etcd's socket is in it. */
  dir: string;
  /** The TCP port on 127.0.0.1. */
  port: number;
  pki: Pki;
  /** `needed` omits the APIs that do nothing without kube-controller-manager (saves 70 MB). @default "needed" */
  apis?: "needed" | "all";
  /** Go's `GOGC`: how much garbage may be in memory, in percent of what is in use. More saves CPU time. @default 75 */
  gogc?: number | undefined;
  clock: Clock;
  signal?: AbortSignal | undefined;
}

/** Starts an API server. Resolves when `/readyz` responds with 200. */
export async function startApiServer(options: ApiServerOptions): Promise<Child> {
  const { dir, pki, port, signal } = options;
  const serving = await pki.issueTo("api-server", {
    commonName: "kube-apiserver",
    use: "server",
    hosts: ["127.0.0.1", "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"],
  });
  const toNode = await pki.issueTo("kubelet-client", { commonName: nodeClientName, use: "client" });
  const probe = await pki.issue({ commonName: "ramet-probe", organizations: ["system:masters"], use: "client" });
  const server = await startChild({
    program: options.program,
    cwd: dir,
    logPath: join(dir, "api-server.log"),
    clock: options.clock,
    environment: { GOGC: String(options.gogc ?? 75) },
    args: flags(options, serving, toNode),
  });
  await waitUntilReady(server, {
    what: "the API server",
    clock: options.clock,
    signal,
    ready: () => answersReady({ port, ca: pki.ca, cert: probe.certificate, key: probe.key }),
  });
  return server;
}

/** The common name of the API server's client certificate for the local node (used by `kubectl logs`). */
export const nodeClientName = "ramet:api-server-to-node";

function flags(
  { port, pki, apis = "needed" }: ApiServerOptions,
  serving: KeyPairFiles,
  toNode: KeyPairFiles,
): string[] {
  return [
    `--etcd-servers=${etcdEndpoint}`,
    "--bind-address=127.0.0.1",
    "--advertise-address=127.0.0.1",
    `--secure-port=${port}`,
    // Loopback addresses are invalid in Endpoints, and nothing in the cluster uses these.
    "--endpoint-reconciler-type=none",
    `--tls-cert-file=${serving.certificatePath}`,
    `--tls-private-key-file=${serving.keyPath}`,
    `--client-ca-file=${pki.caPath}`,
    `--kubelet-certificate-authority=${pki.caPath}`,
    `--kubelet-client-certificate=${toNode.certificatePath}`,
    `--kubelet-client-key=${toNode.keyPath}`,
    "--kubelet-preferred-address-types=InternalIP",
    "--service-account-issuer=https://kubernetes.default.svc",
    `--service-account-key-file=${pki.serviceAccountKeyPath}`,
    `--service-account-signing-key-file=${pki.serviceAccountKeyPath}`,
    "--service-cluster-ip-range=10.96.0.0/16",
    "--authorization-mode=RBAC",
    "--anonymous-auth=false",
    "--allow-privileged=false",
    // No controller creates the `default` service account here, and sandbox Pods have no token.
    // Only the node controller removes the taint of a node that was not ready, and none runs here.
    "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
    // There is one user, so fair queuing and its ten objects have no benefit.
    "--enable-priority-and-fairness=false",
    "--profiling=false",
    "--enable-logs-handler=false",
    "--etcd-count-metric-poll-period=0",
    "--etcd-db-metric-poll-interval=0",
    "--shutdown-delay-duration=0",
    "--event-ttl=1h",
    "--v=0",
    ...(apis === "needed" ? [`--runtime-config=${withoutController.map((api) => `${api}=false`).join(",")}`] : []),
  ];
}

/** No controller here handles these APIs. Disabled, `kubectl` reports an error instead of creating a Deployment without effect. */
const withoutController = [
  "apps/v1",
  "autoscaling/v1",
  "autoscaling/v2",
  "batch/v1",
  "certificates.k8s.io/v1",
  "flowcontrol.apiserver.k8s.io/v1",
  "policy/v1",
  "resource.k8s.io/v1",
];

function answersReady(options: { port: number; ca: string; cert: string; key: string }): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = request(
      { host: "127.0.0.1", path: "/readyz", timeout: 2000, agent: false, ...options },
      (response) => {
        response.resume();
        resolve(response.statusCode === 200);
      },
    );
    probe.once("timeout", () => probe.destroy());
    probe.once("error", () => {
      resolve(false);
    });
    probe.end();
  });
}

/** Whether a start failed because another program uses the port. */
export function portWasTaken(error: unknown): boolean {
  return error instanceof RametError && error.message.includes("address already in use");
}

interface KubeconfigOptions {
  /** The name of the cluster, the context and the user in the file. */
  name: string;
  /** URL of the API server. */
  server: string;
  /** PEM of the authority that signed the API server's certificate. */
  ca: string;
  client: KeyPair;
}

/** A kubeconfig with embedded certificates. */
function kubeconfig({ name, server, ca, client }: KubeconfigOptions): string {
  const base64 = (text: string): string => Buffer.from(text).toString("base64");
  return stringify({
    apiVersion: "v1",
    kind: "Config",
    clusters: [{ name, cluster: { server, "certificate-authority-data": base64(ca) } }],
    users: [
      {
        name,
        user: { "client-certificate-data": base64(client.certificate), "client-key-data": base64(client.key) },
      },
    ],
    contexts: [{ name, context: { cluster: name, user: name, namespace: "default" } }],
    "current-context": name,
  });
}

/** Writes a kubeconfig atomically. Only the owner can read it. */
export async function writeKubeconfig(path: string, options: KubeconfigOptions): Promise<void> {
  await replaceFile(path, kubeconfig(options));
}
