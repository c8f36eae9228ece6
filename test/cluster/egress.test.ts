import { once } from "node:events";
import { createServer, type Socket } from "node:net";
import type { AddressInfo } from "node:net";
import { networkInterfaces } from "node:os";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { coreResources } from "../../src/kube/resource-ref.ts";
import { counterPort } from "../setup/counter.ts";
import { type Cluster, openCluster } from "./controllers-cluster.ts";
import { realNode } from "./controllers-real-node.ts";

/** Sandboxes can reach this address of the machine because the runtime's rules name it. */
const address = Object.values(networkInterfaces())
  .flat()
  .find((one) => one?.family === "IPv4" && !one.internal && !one.address.startsWith("169.254."))!.address;
const apiVersion = "agents.kruise.io/v1alpha1";
const egress = "ramet.dev/egress";
const deny = JSON.stringify({ default: "deny" });

/** The rules of the runtime, which the controllers read when they start. */
const rules = { allow: [address] };
let cluster: Cluster;
let world: { port: number; sockets: Socket[]; close: () => void };

beforeAll(async () => {
  world = await openWorld(address);
  cluster = await openCluster({ startNode: realNode(), egress: rules });
  await cluster.namespace("t");
});
afterAll(async () => {
  await cluster.close();
  world.close();
});

/** Responds with whether the sandbox can connect to the world; `/hold` also keeps the connection. */
const script = (port: number) => `
import http.server, socket, socketserver
held = []
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        try:
            s = socket.create_connection(("${address}", ${port}), timeout=20)
            body = s.recv(2)
            if self.path == "/hold": held.append(s)
            else: s.close()
        except OSError: body = b"denied"
        self.send_response(200); self.send_header("content-length", str(len(body))); self.end_headers()
        self.wfile.write(body)
    def log_message(self, *args): pass
class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True
Server(("", ${counterPort}), Handler).serve_forever()
`;

describe("egress rules", () => {
  it("apply to a running sandbox, and end the connections that they deny", async () => {
    await create("Sandbox", "a", { spec: { template: template() } });
    expect(await ask("a")).toBe("ok");
    expect(await ask("a", "/hold")).toBe("ok");
    const held = world.sockets.at(-1)!;
    expect(held.closed).toBe(false);
    const ended = new Promise((resolve) => held.once("close", resolve));

    await annotate("a", deny);
    await cluster.sandbox("t/a", ({ status }) => applied(status)?.status === "True");
    await ended;
    expect(await ask("a")).toBe("denied");

    await annotate("a", null);
    await cluster.sandbox("t/a", ({ status }) => applied(status) === undefined);
    expect(await ask("a")).toBe("ok");
  });

  it("name the field that cannot be honoured, and deny everything until it is corrected", async () => {
    await annotate("a", '{"allow": ["10.0.0.0/33"]}');
    const { status } = await cluster.sandbox("t/a", (one) => applied(one.status)?.status === "False");
    expect(applied(status)).toMatchObject({
      reason: "InvalidArgument",
      message: expect.stringContaining("metadata.annotations[ramet.dev/egress].allow[0]") as string,
    });
    expect(status?.phase).toBe("Running");
    await expect.poll(() => ask("a")).toBe("denied");
    await annotate("a", null);
    await cluster.sandbox("t/a", (one) => applied(one.status) === undefined);
    expect(await ask("a")).toBe("ok");

    await create("Sandbox", "greedy", {
      annotations: { [egress]: '{"allow": ["127.0.0.1"]}' },
      spec: { template: template() },
    });
    const greedy = await cluster.sandbox("t/greedy", (one) => one.status?.message !== undefined);
    expect(greedy.status?.phase).toBe("Pending");
    expect(greedy.status?.message).toContain(
      "metadata.annotations[ramet.dev/egress].allow[0]: 127.0.0.1 is in 127.0.0.0/8",
    );
    await annotate("greedy", JSON.stringify({ default: "deny", allow: [`${address}:${world.port}`] }));
    expect(await ask("greedy")).toBe("ok");
  });

  it("of a clone are its own", async () => {
    await create("Checkpoint", "a-1", { spec: { podName: "a" } });
    const { status } = await cluster.checkpoint("t/a-1", (one) => one.status?.phase === "Succeeded");
    await create("Sandbox", "clone", {
      annotations: { "ramet.dev/restore-from": status?.checkpointId ?? "" },
      labels: { "agents.kruise.io/allow-internet-access": "false" },
      spec: { template: template() },
    });
    expect(await ask("clone")).toBe("denied");
    expect(await ask("a")).toBe("ok");
  });

  it("of a claim are in effect when the claim is completed", async () => {
    await create("SandboxSet", "set", { spec: { replicas: 1, template: template() } });
    await expect
      .poll(() => cluster.seen.sets.store.get("t/set")?.status?.availableReplicas, { timeout: 60_000 })
      .toBe(1);
    await create("SandboxClaim", "claim", { spec: { templateName: "set", annotations: { [egress]: deny } } });
    await expect
      .poll(() => cluster.seen.claims.store.get("t/claim")?.status?.phase, { timeout: 60_000 })
      .toBe("Completed");
    // Claims and sandboxes have separate watches, so only the claim surely names its sandbox.
    const [claimed = ""] = cluster.seen.claims.store.get("t/claim")?.status?.ramet?.sandboxes ?? [];
    expect(await ask(claimed)).toBe("denied");
  });

  it("of a changed template apply to the running sandboxes that name it", async () => {
    const at = { name: "python", namespace: "t" };
    await create("SandboxTemplate", at.name, { spec: { template: template() } });
    await create("Sandbox", "follower", { spec: { templateRef: { name: at.name } } });
    expect(await ask("follower")).toBe("ok");
    const before = await cluster.sandbox("t/follower", () => true);
    const templates = cluster.seen.templates.resource;
    const setRules = (value: string | null) =>
      templates.mergePatch(at, { spec: { template: { metadata: { annotations: { [egress]: value } } } } });
    await setRules(deny);
    await cluster.sandbox("t/follower", ({ status }) => applied(status)?.status === "True");
    expect(await ask("follower")).toBe("denied");
    await setRules(null);
    const after = await cluster.sandbox("t/follower", ({ status }) => applied(status) === undefined);
    expect(await ask("follower")).toBe("ok");
    expect(after.status?.podInfo?.podUID).toBe(before.status?.podInfo?.podUID);
  });

  it("of the runtime apply to running sandboxes when the controllers restart with them", async () => {
    rules.allow.length = 0;
    await cluster.restartControllers();
    await expect.poll(() => ask("a"), { timeout: 20_000 }).toBe("denied");
    rules.allow.push(address);
    await cluster.restartControllers();
    await expect.poll(() => ask("a"), { timeout: 20_000 }).toBe("ok");
  });

  it("of a namespace apply to its sandboxes", async () => {
    const namespaces = cluster.client.resource(coreResources.namespaces);
    await namespaces.mergePatch({ name: "t" }, { metadata: { annotations: { [egress]: deny } } });
    await cluster.sandbox("t/a", ({ status }) => applied(status)?.status === "True");
    expect(await ask("a")).toBe("denied");
    const greedy = await cluster.sandbox("t/greedy", ({ status }) => applied(status)?.status === "False");
    expect(applied(greedy.status)?.message).toContain(
      "metadata.annotations[ramet.dev/egress].allow[0]: the namespace's metadata.annotations[ramet.dev/egress] does not allow",
    );
    await expect.poll(() => ask("greedy")).toBe("denied");
  });
});

async function openWorld(host: string) {
  const sockets: Socket[] = [];
  const server = createServer((socket) => {
    sockets.push(socket);
    socket.on("error", () => undefined);
    socket.write("ok");
  });
  server.listen(0, host);
  await once(server, "listening");
  const close = () => {
    for (const socket of sockets) socket.destroy();
    server.close();
  };
  return { port: (server.address() as AddressInfo).port, sockets, close };
}

function template() {
  const command = ["python3", "-c", script(world.port)];
  const ports = [{ containerPort: counterPort }];
  return {
    spec: { terminationGracePeriodSeconds: 1, containers: [{ name: "main", image: "python", command, ports }] },
  };
}

async function create(
  kind: string,
  name: string,
  {
    annotations,
    labels,
    ...rest
  }: { annotations?: Record<string, string>; labels?: Record<string, string>; spec: object },
) {
  const metadata = { name, namespace: "t", ...(annotations && { annotations }), ...(labels && { labels }) };
  await cluster.create({ apiVersion, kind, metadata, ...rest });
}

async function annotate(name: string, value: string | null) {
  const patch = { metadata: { annotations: { [egress]: value } } };
  await cluster.seen.sandboxes.resource.mergePatch({ namespace: "t", name }, patch);
}

/** Asks the program in a sandbox of namespace `t` whether it can connect to the world. */
async function ask(name: string, path = "/"): Promise<string> {
  const { status } = await cluster.sandbox(`t/${name}`, (sandbox) => sandbox.status?.phase === "Running");
  for (;;) {
    const answer = await fetch(`http://${status?.sandboxIp ?? ""}:${counterPort}${path}`).catch(() => undefined);
    if (answer?.ok === true) return answer.text();
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

function applied(
  status: { conditions?: { type: string; status: string; reason: string; message: string }[] | undefined } | undefined,
) {
  return status?.conditions?.find(({ type }) => type === "EgressApplied");
}
