import { describe, expect, it } from "vitest";
import { sandboxKind } from "../../src/api/kinds/sandbox.ts";
import { isPodReady } from "../../src/api/schema/pod.ts";
import { refOf } from "../../src/kube/resource-ref.ts";
import { podProcesses } from "../../src/local/node/launch-pod.ts";
import type { NodePod } from "../../src/local/node/pod.ts";
import { runningCluster } from "./running-cluster.ts";

const cluster = runningCluster();

const ready = (pod: NodePod | undefined): boolean => pod !== undefined && isPodReady(pod);
const shell = (script: string): string[] => ["sh", "-c", script];
const shared = [{ name: "shared", mountPath: "/shared" }];
const volumes = [{ name: "shared", emptyDir: {} }];
const container = (name: string, script: string, rest: object = {}) => ({
  name,
  image: "python",
  command: shell(script),
  volumeMounts: shared,
  ...rest,
});

async function create(name: string, spec: object): Promise<void> {
  await (await cluster.client()).resource(refOf(sandboxKind)).create({
    apiVersion: "agents.kruise.io/v1alpha1",
    kind: "Sandbox",
    metadata: { namespace: "default", name },
    spec: { template: { spec: { terminationGracePeriodSeconds: 5, volumes, ...spec } } },
  });
}

/** Listens to port 9000 from the request `/listen` on port 8000 until the request `/close`. */
const listensOnRequest = `
import http.server, socket
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        global web
        if self.path == "/listen": web = socket.create_server(("", 9000))
        else: web.close()
        self.send_response(200); self.end_headers()
    def log_message(self, *args): pass
http.server.ThreadingHTTPServer(("", 8000), Handler).serve_forever()
`;

const uidOf = (pod: NodePod | undefined): string => pod?.metadata.uid ?? "";

describe("a Pod with several containers on a local cluster", () => {
  it("runs init containers in order, then sidecars, the sandbox with its hooks and probes, and further containers", async () => {
    await create("whole", {
      initContainers: [
        container("first", "echo first > /shared/order"),
        container("second", "sleep 0.5; echo second >> /shared/order"),
        container("sidecar", "echo sidecar >> /shared/order; while :; do echo beat; sleep 0.2; done", {
          restartPolicy: "Always",
          startupProbe: { exec: { command: ["grep", "-q", "sidecar", "/shared/order"] }, periodSeconds: 1 },
        }),
      ],
      containers: [
        container("main", "cat /shared/order; touch /up; sleep 600", {
          startupProbe: { exec: { command: ["test", "-e", "/up"] }, periodSeconds: 1, failureThreshold: 30 },
          lifecycle: {
            postStart: { exec: { command: shell("echo hook >> /shared/order") } },
            preStop: { exec: { command: shell("echo stopped > /shared/stop") } },
          },
        }),
        container("beside", "sleep 600", { readinessProbe: { exec: { command: ["test", "-e", "/shared/stop"] } } }),
      ],
    });
    const pod = await cluster.untilPod("whole", (one) => one?.status?.containerStatuses?.[0]?.ready === true);
    expect(pod?.status?.["initContainerStatuses"]).toMatchObject([
      { name: "first", ready: true, state: { terminated: { exitCode: 0, reason: "Completed" } } },
      { name: "second", state: { terminated: { exitCode: 0 } } },
      { name: "sidecar", ready: true, started: true, restartCount: 0, state: { running: {} } },
    ]);
    expect(await cluster.logs("whole", "container=main")).toMatch(/^first\nsecond\nsidecar\n/);
    await expect.poll(() => cluster.logs("whole", "container=sidecar"), { timeout: 30_000 }).toContain("beat\n");
    // The third container is not ready, and the Pod names it.
    const waiting = await cluster.untilPod("whole", (one) =>
      JSON.stringify(one?.status).includes("beside is not ready"),
    );
    expect(isPodReady(waiting!)).toBe(false);
    await cluster.deleteSandbox("whole");
    // Its preStop hook runs before the sandbox ends; then the sidecar ends.
    await cluster.untilPod("whole", (one) => one === undefined);
    const left = podProcesses(cluster.directory.pods).filter(({ name }) => name.startsWith(uidOf(pod)));
    expect(left).toEqual([]);
  });

  it("fails with the name of an init container that fails", async () => {
    await create("broken", {
      initContainers: [container("check", "echo no >&2; exit 3")],
      containers: [container("main", "sleep 600")],
    });
    const ended = await cluster.untilPod("broken", (one) => one?.status?.phase === "Failed");
    expect(ended?.status?.["message"]).toMatch(/^The init container check failed with exit code 3/);
    const sandbox = await cluster.until(
      refOf(sandboxKind),
      { namespace: "default", name: "broken" },
      (value) => value as never as { metadata: NodePod["metadata"]; status?: { phase?: string; message?: string } },
      (one) => one?.status?.phase === "Failed",
    );
    expect(sandbox?.status?.message).toContain("The init container check failed with exit code 3");
    expect(await cluster.logs("broken", "container=check")).toBe("no\n");
  });

  it("restarts a sidecar, with its log of before", async () => {
    await create("restarting", {
      initContainers: [
        container(
          "sidecar",
          "echo run >> /shared/runs; wc -l < /shared/runs; [ $(wc -l < /shared/runs) -gt 1 ] && sleep 600; exit 1",
          {
            restartPolicy: "Always",
          },
        ),
      ],
      containers: [container("main", "sleep 600")],
    });
    const pod = await cluster.untilPod(
      "restarting",
      (one) => ready(one) && JSON.stringify(one?.status?.["initContainerStatuses"]).includes('"restartCount":1'),
    );
    expect(pod?.status?.["initContainerStatuses"]).toMatchObject([
      { ready: true, lastState: { terminated: { exitCode: 1, reason: "Error" } } },
    ]);
    // A container without a start-up probe counts as started before it has written anything.
    await expect.poll(() => cluster.logs("restarting", "container=sidecar"), { timeout: 30_000 }).toBe("2\n");
    expect(await cluster.logs("restarting", "container=sidecar&previous=true")).toBe("1\n");
  });

  it("keeps its containers when the node is killed, and does not run what has finished again", async () => {
    await create("kept", {
      initContainers: [
        container("init", "echo init >> /shared/runs"),
        container("sidecar", "echo sidecar >> /shared/runs; echo up; sleep 600", { restartPolicy: "Always" }),
      ],
      containers: [
        container("main", "while :; do tr '\\n' ' ' < /shared/runs; echo; sleep 0.2; done", {
          lifecycle: { postStart: { exec: { command: shell("echo hook >> /shared/runs") } } },
        }),
      ],
    });
    const pod = await cluster.untilPod("kept", ready);
    const before = podProcesses(cluster.directory.pods).filter(({ name }) => name.startsWith(uidOf(pod)));
    expect(before.some(({ name }) => name.endsWith("/containers/sidecar"))).toBe(true);
    process.kill(cluster.pid("node"), "SIGKILL");
    // The next node knows the containers.
    await expect.poll(() => cluster.logs("kept", "container=sidecar"), { timeout: 30_000 }).toBe("up\n");
    expect((await cluster.logs("kept", "container=main&tailLines=1")).trim()).toBe("init sidecar hook");
    expect(podProcesses(cluster.directory.pods)).toEqual(expect.arrayContaining(before));
    await cluster.deleteSandbox("kept");
    await cluster.untilPod("kept", (one) => one === undefined);
    expect(podProcesses(cluster.directory.pods).filter(({ name }) => name.startsWith(uidOf(pod)))).toEqual([]);
  });

  it("is ready while its program listens to the port of a tcpSocket probe, and not before", async () => {
    const tcp = (port: number | string) => ({ tcpSocket: { port }, periodSeconds: 1, timeoutSeconds: 60 });
    await cluster.createSandbox("listening", listensOnRequest, {
      container: {
        ports: [
          { name: "control", containerPort: 8000 },
          { name: "web", containerPort: 9000 },
        ],
        startupProbe: { ...tcp("control"), failureThreshold: 60 },
        readinessProbe: { ...tcp("web"), failureThreshold: 1 },
        livenessProbe: tcp(8000),
      },
    });
    const refused = "the readiness probe failed: port 9000 does not accept connections";
    const isRefused = (pod: NodePod | undefined) => JSON.stringify(pod?.status?.conditions ?? []).includes(refused);
    const waiting = await cluster.untilPod("listening", isRefused);
    expect(isPodReady(waiting!)).toBe(false);
    const ask = async (path: string) => {
      expect((await fetch(`http://${waiting?.status?.podIP ?? ""}:8000/${path}`)).status).toBe(200);
    };
    await ask("listen");
    await cluster.untilPod("listening", ready);
    await ask("close");
    await cluster.untilPod("listening", isRefused);
    expect((await fetch(`http://${waiting?.status?.podIP ?? ""}:49980/tcpz/49983`)).status).toBe(404);
  });

  it("fails a sandbox whose postStart hook fails, with the hook's output", async () => {
    await create("hooked", {
      containers: [
        container("main", "sleep 600", { lifecycle: { postStart: { exec: { command: shell("echo nope; exit 4") } } } }),
      ],
    });
    const ended = await cluster.untilPod("hooked", (one) => one?.status?.phase === "Failed");
    expect(ended?.status?.["message"]).toBe("the postStart hook of container main failed: exit code 4: nope");
  });
});
