import { rm } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { Checkpoint } from "../../src/api/kinds/checkpoint.ts";
import { isPodReady } from "../../src/api/schema/pod.ts";
import { unreadyMessage } from "../../src/controllers/cluster/pod-facts.ts";
import { sandboxResources } from "../../src/controllers/cluster/resources.ts";
import type { NodePod } from "../../src/local/node/pod.ts";
import { identifyProcess, isProcessRunning } from "../../src/base/process-identity.ts";
import { builtPrograms } from "../setup/built-package.ts";
import { copyOfGuest, otherGuest } from "../setup/other-engine.ts";
import { TestCluster } from "./local-cluster.ts";

/** An upgrade of a local cluster to another engine, during which a sandbox with exec probes and hooks continues in its cell. */
let cluster: TestCluster;
beforeAll(async () => {
  cluster = await TestCluster.create();
  const guest = await copyOfGuest();
  await cluster.up(builtPrograms.part, { "ramet-guest": guest });
  await create("earlier");
  await cluster.untilPod("earlier", isUp);
  const supervisor = identifyProcess(cluster.pid("supervisor"));
  process.kill(supervisor!.pid, "SIGKILL");
  await vi.waitFor(() => {
    expect(isProcessRunning(supervisor!)).toBe(false);
  }, 20_000);
  await rm(guest);
  await cluster.up(builtPrograms.part, { "ramet-guest": await otherGuest() });
}, 400_000);
afterAll(() => cluster.remove());

/** Serves requests like `/touch/ready` and `/remove/ready` for files of its root directory, and prints when it sees `/stopping`. */
const program = `
import http.server, os, threading, time
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        _, change, name = self.path.split("/")
        if change == "touch": open("/" + name, "w").close()
        else: os.remove("/" + name)
        self.send_response(200); self.end_headers()
    def log_message(self, *args): pass
def watch():
    while not os.path.exists("/stopping"): time.sleep(0.02)
    print("stopping", flush=True)
threading.Thread(target=watch, daemon=True).start()
open("/ready", "w").close()
http.server.ThreadingHTTPServer(("", 8000), Handler).serve_forever()
`;
const exec = (script: string) => ({ exec: { command: ["sh", "-c", script] } });
/** The first result counts, also that of a slow machine. */
const probe = (script: string) => ({ ...exec(script), periodSeconds: 1, timeoutSeconds: 60, failureThreshold: 1 });
const container = {
  ports: [{ containerPort: 8000 }],
  startupProbe: { ...probe("test -e /hooked"), failureThreshold: 60 },
  readinessProbe: probe("test -e /ready || { echo not here; exit 3; }"),
  livenessProbe: probe("test ! -e /dead || { echo dead; exit 4; }"),
  lifecycle: { postStart: exec("touch /hooked"), preStop: exec("touch /stopping; sleep 1") },
};
const create = (name: string): Promise<void> => cluster.createSandbox(name, program, { container });
const isUp = (pod: NodePod | undefined): boolean => pod !== undefined && isPodReady(pod);
const ask = async (name: string, path: string): Promise<void> => {
  const pod = await cluster.untilPod(name, (one) => one?.status?.podIP !== undefined);
  expect((await fetch(`http://${pod?.status?.podIP ?? ""}:8000${path}`)).status).toBe(200);
};
const imageOf = (pod: NodePod | undefined) => pod?.spec.containers[0]?.image;

/** The readiness probe follows the program, and the preStop hook runs before the end. */
async function expectCare(name: string): Promise<void> {
  await cluster.untilPod(name, isUp);
  await ask(name, "/remove/ready");
  const unready = await cluster.untilPod(name, (pod) => pod !== undefined && !isPodReady(pod));
  expect(unreadyMessage(unready!)).toContain("the readiness probe failed: exit code 3: not here");
  await ask(name, "/touch/ready");
  await cluster.untilPod(name, isUp);
  const log = cluster.logs(name, "follow=true");
  await cluster.deleteSandbox(name);
  await cluster.untilPod(name, (pod) => pod === undefined);
  expect(await log).toContain("stopping\n");
}

it("captures a sandbox that continues in the cell of the earlier engine, and probes a clone of it", async () => {
  const client = await cluster.client();
  const at = { namespace: "default", name: "earlier-1" };
  const apiVersion = "agents.kruise.io/v1alpha1";
  await client
    .resource(sandboxResources.checkpoints)
    .create({ apiVersion, kind: "Checkpoint", metadata: at, spec: { sandboxName: "earlier" } });
  const { status } =
    (await cluster.until(
      sandboxResources.checkpoints,
      at,
      (value) => Checkpoint.parse(value),
      (one) => ["Succeeded", "Failed"].includes(one?.status?.phase ?? ""),
    )) ?? {};
  expect(status?.phase, status?.message).toBe("Succeeded");
  for (const name of ["copy", "dying"]) {
    const annotations = { "ramet.dev/restore-from": status?.checkpointId ?? "" };
    const metadata = { name, namespace: "default", annotations };
    await client.resource(sandboxResources.sandboxes).create({ apiVersion, kind: "Sandbox", metadata, spec: {} });
    const pod = await cluster.untilPod(name, isUp);
    expect(imageOf(pod)).toBe(`ramet-cell:${status?.ramet?.engine ?? ""}`);
  }
  await create("current");
  const current = await cluster.untilPod("current", isUp);
  expect(imageOf(current)).not.toBe(imageOf(await cluster.untilPod("copy", isUp)));
  await expectCare("copy");
  await expectCare("current");
  await ask("dying", "/touch/dead");
  const ended = await cluster.untilPod("dying", (pod) => pod?.status?.phase === "Failed");
  expect(ended?.status?.["message"]).toContain("the liveness probe failed: exit code 4: dead");
});

it("runs the probes and the preStop hook of a sandbox that continues in the cell of the earlier engine", () =>
  expectCare("earlier"));

it("keeps a sandbox whose cell takes no commands of probes, and reports that", async () => {
  await create("silent");
  const pod = await cluster.untilPod("silent", isUp);
  // A stand-in for cells that local nodes started before they could probe by commands: they do not have this socket.
  const socket = join(cluster.directory.pods, pod?.metadata.uid ?? "", "cell", "access.sock");
  await rm(socket);
  const message = (one: NodePod | undefined) => one?.status?.conditions?.find(({ type }) => type === "Ready")?.message;
  const reporting = await cluster.untilPod("silent", (one) => message(one)?.includes("cannot be made") === true);
  expect(reporting?.status).toMatchObject({ phase: "Running" });
  expect(isPodReady(reporting!)).toBe(true);
  expect(message(reporting)).toMatch(
    /the (readiness|liveness) probe cannot be made: cannot reach the cell in this container: it accepts no commands/,
  );
  await ask("silent", "/touch/ready");
  await cluster.deleteSandbox("silent");
  await cluster.untilPod("silent", (one) => one === undefined);
});
