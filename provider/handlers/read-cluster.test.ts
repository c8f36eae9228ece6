import { createServer, type AddressInfo, type Server, type Socket } from "node:net";
import { afterEach, expect, it } from "vitest";
import { coreResources } from "../../src/kube/resource-ref.ts";
import { readCluster } from "./open-cluster.ts";

let server: Server | undefined;
const sockets = new Set<Socket>();

afterEach(() => {
  for (const socket of sockets) socket.destroy();
  server?.close();
});

it("times out if the server accepts connections but never responds", async () => {
  const kubeconfig = await kubeconfigOfSilentServer();
  const configuration = { get: (key: string) => (key === "kubernetes:kubeconfig" ? kubeconfig : undefined) };
  const seen = readCluster(
    { configuration, environment: {} },
    (client, signal) => client.resource(coreResources.nodes).list({ signal }),
    { withinMilliseconds: 200 },
  );
  await expect(seen).rejects.toMatchObject({ code: "Timeout", message: "The cluster did not respond within 0.2 s" });
});

async function kubeconfigOfSilentServer(): Promise<string> {
  const listening = createServer((socket) => sockets.add(socket));
  server = listening;
  await new Promise<void>((resolve) => listening.listen(0, "127.0.0.1", resolve));
  const { port } = listening.address() as AddressInfo;
  const named = (name: string, value: object) => [{ name: "silent", [name]: value }];
  return JSON.stringify({
    apiVersion: "v1",
    kind: "Config",
    "current-context": "silent",
    clusters: named("cluster", { server: `http://127.0.0.1:${port}` }),
    contexts: named("context", { cluster: "silent", user: "silent" }),
    users: named("user", { token: "token" }),
  });
}
