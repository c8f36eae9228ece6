import { existsSync, readdirSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { describe, expect, it } from "vitest";
import { isPodReady } from "../../src/api/schema/pod.ts";
import { coreResources } from "../../src/kube/resource-ref.ts";
import { PodDirectory } from "../../src/local/node/pod-directory.ts";
import { podProcesses } from "../../src/local/node/launch-pod.ts";
import type { NodePod } from "../../src/local/node/pod.ts";
import { identifyProcess, isProcessRunning } from "../../src/base/process-identity.ts";
import { readPort } from "../../src/local/supervisor/parts.ts";
import { accountToken, allowToReach, ask } from "../setup/gateway.ts";
import { runningCluster } from "./running-cluster.ts";

const counting = "import time\ni = 0\nwhile True:\n print('line', i); i += 1; time.sleep(0.2)";

const cluster = runningCluster();

const ready = (pod: NodePod | undefined): boolean => pod !== undefined && isPodReady(pod);
const ended = (pod: NodePod | undefined): boolean => pod?.status?.phase === "Failed";
const deleted = (pod: NodePod | undefined): boolean => pod === undefined;

/** The processes of one Pod on this machine. */
function processesOf(pod: NodePod | undefined): number[] {
  const record = new PodDirectory(cluster.directory.pods, pod?.metadata.uid ?? "").readRecord();
  const found = podProcesses(cluster.directory.pods).filter(({ name }) => name === (record?.spare ?? record?.uid));
  return found.map(({ process }) => process.pid);
}

describe("a cluster on this machine", () => {
  it("reports a second start of a running cluster", async () => {
    expect((await cluster.up()).already).toBe(true);
  });

  it("runs a Pod and reports its status", async () => {
    await cluster.createSandbox("truth", counting);
    const pod = await cluster.untilPod("truth", ready);
    expect(pod?.spec.nodeName).toBe("ramet-local");
    expect(pod?.status).toMatchObject({ phase: "Running", hostIP: "127.0.0.1" });
    expect(pod?.status?.podIP).toMatch(/^127\.(6[4-9]|[789]\d|1[01]\d|12[0-7])\./);
    expect(pod?.status?.containerStatuses).toMatchObject([
      { name: "main", ready: true, restartCount: 0, state: { running: {} } },
    ]);
    const types = pod?.status?.conditions?.map(({ type, status }) => `${type}=${status}`).sort();
    expect(types).toEqual([
      "ContainersReady=True",
      "Initialized=True",
      "PodReadyToStartContainers=True",
      "PodScheduled=True",
      "Ready=True",
    ]);
  });

  it("denies sandboxes the private networks of the machine", async () => {
    const code =
      "import socket\ntry: socket.create_connection(('10.255.255.1', 80), 20).recv(1); print('connected')\nexcept OSError as e: print(type(e).__name__)";
    await cluster.createSandbox("curious", code);
    const pod = await cluster.untilPod("curious", (one) => one?.status?.phase === "Succeeded");
    expect(await cluster.logs("curious")).toBe("ConnectionResetError\n");
    const log = await readFile(new PodDirectory(cluster.directory.pods, pod?.metadata.uid ?? "").cellLog, "utf8");
    expect(log).toContain(
      "connection to 10.255.255.1:80: addresses of the cluster are refused unless a rule names them",
    );
    await cluster.deleteSandbox("curious");
    await cluster.untilPod("curious", deleted);
  });

  it("serves the entrypoint's output with the options of kubectl logs", async () => {
    await cluster.untilPrinted("truth");
    expect(await cluster.logs("truth", "limitBytes=7")).toBe("line 0\n");
    expect(await cluster.logs("truth", "tailLines=1")).toMatch(/^line \d+\n$/);
    expect(await cluster.logs("truth", "timestamps=true")).toMatch(/^\d{4}-\d\d-\d\dT[\d:.]+Z line 0\n/);
    expect(await cluster.logs("truth", "previous=true")).toContain("no previous run");
  });

  it("follows the log to the end, and ends the Pod when its entrypoint exits", async () => {
    await cluster.createSandbox("short", "import time\nprint('a'); time.sleep(1.5); print('b')");
    await cluster.untilPod("short", (one) => one?.status?.phase === "Running");
    expect(await cluster.logs("short", "follow=true")).toBe("a\nb\n");
    const pod = await cluster.untilPod("short", (one) => one?.status?.phase === "Succeeded");
    const terminated = { exitCode: 0, reason: "Completed" };
    expect(pod?.status?.containerStatuses?.[0]?.state).toMatchObject({ terminated });
    await cluster.deleteSandbox("short");
    await cluster.untilPod("short", deleted);
  });

  it("has the admission policies of an installation", async () => {
    const pods = (await cluster.client()).resource(coreResources.pods);
    const options = { apiVersion: "v1", kind: "PodExecOptions", metadata: {} };
    const exec = pods.postSubresource({ namespace: "default", name: "truth" }, "exec", options);
    await expect(exec).rejects.toThrow(
      /This namespace has sandboxes, so exec, attach, port-forward and proxy are not allowed/,
    );
  });

  it("gives a sandbox its volumes and variables, and waits for a missing Secret", async () => {
    const code =
      "import os\nprint(os.environ['WHERE'], os.environ['PASS'], open('/etc/conf/greeting').read())\nopen('/scratch/x', 'w')\nimport time; time.sleep(1)";
    await cluster.createSandbox("supplied", code, {
      container: {
        env: [
          { name: "WHERE", valueFrom: { fieldRef: { fieldPath: "spec.nodeName" } } },
          { name: "PASS", valueFrom: { secretKeyRef: { name: "pass", key: "word" } } },
        ],
        volumeMounts: [
          { name: "conf", mountPath: "/etc/conf" },
          { name: "scratch", mountPath: "/scratch" },
        ],
      },
      volumes: [
        { name: "conf", configMap: { name: "conf" } },
        { name: "scratch", emptyDir: {} },
      ],
    });
    const waiting = await cluster.untilPod("supplied", (one) => one?.status?.containerStatuses !== undefined);
    expect(waiting?.status?.containerStatuses?.[0]?.state?.waiting).toMatchObject({
      reason: "CreateContainerError",
      message: expect.stringContaining("the Secret pass does not exist") as string,
    });
    const client = await cluster.client();
    const metadata = (name: string) => ({ name, namespace: "default" });
    const secret = { apiVersion: "v1", kind: "Secret", metadata: metadata("pass"), stringData: { word: "sesame" } };
    const conf = { apiVersion: "v1", kind: "ConfigMap", metadata: metadata("conf"), data: { greeting: "hello" } };
    await client.resource(coreResources.secrets).create(secret);
    await client.resource(coreResources.configMaps).create(conf);
    await cluster.untilPod("supplied", (one) => one?.status?.phase === "Running");
    expect(await cluster.logs("supplied", "follow=true")).toBe("ramet-local sesame hello\n");
    await cluster.deleteSandbox("supplied");
    await cluster.untilPod("supplied", deleted);
  });

  it("reports why an image cannot be pulled, and keeps the Pod Pending", async () => {
    await cluster.createSandbox("imageless", counting, { image: "registry.invalid/nowhere:1" });
    const pod = await cluster.untilPod("imageless", (one) => one?.status?.containerStatuses !== undefined);
    expect(pod?.status?.phase).toBe("Pending");
    expect(pod?.status?.containerStatuses?.[0]?.state?.waiting).toMatchObject({
      reason: "ImagePullBackOff",
      message: expect.stringMatching(/registry\.invalid\/nowhere:1.*ramet local image add/s) as string,
    });
    await cluster.deleteSandbox("imageless");
    await cluster.untilPod("imageless", deleted);
  });

  it("keeps its Pods when the node is killed, and manages them after its restart", async () => {
    const before = await cluster.untilPod("truth", ready);
    const processes = processesOf(before);
    process.kill(cluster.pid("node"), "SIGKILL");
    await cluster.createSandbox("after", counting);
    const after = await cluster.untilPod("after", ready);
    expect(after?.status?.podIP).not.toBe(before?.status?.podIP);
    expect(processesOf(before)).toEqual(processes);
    const kept = await cluster.untilPod("truth", ready);
    expect(kept?.status?.containerStatuses).toEqual(before?.status?.containerStatuses);
    expect(await cluster.logs("truth", "tailLines=1")).toMatch(/^line \d+\n$/);
  });

  it("restarts a killed gateway at the same address", async () => {
    const client = await cluster.client();
    const agent = { namespace: "default", name: "agent" };
    const token = await accountToken(client, agent);
    await allowToReach(client, "default", agent);
    const port = readPort(cluster.directory.gatewayPort) ?? 0;
    // The cell has reported that nothing listens in the sandbox.
    const response = async () => (await ask({ port }, { id: "default--truth", port: 9000 }, { token })).text;
    // The API server knows the right a moment later.
    await expect.poll(response).toContain("nothing listens there");
    const pid = cluster.pid("gateway");
    process.kill(pid, "SIGKILL");
    await expect.poll(() => response().catch(() => ""), { timeout: 60_000 }).toContain("nothing listens there");
    // The supervisor reports it a moment after it serves.
    await expect.poll(() => cluster.pid("gateway")).not.toBe(pid);
  });

  it("reports the reason when a sandbox is lost", async () => {
    const [outer] = processesOf(await cluster.untilPod("after", ready));
    process.kill(outer!, "SIGKILL");
    const pod = await cluster.untilPod("after", ended);
    expect(pod?.status).toMatchObject({ phase: "Failed", reason: "SandboxLost" });
    expect(pod?.status?.containerStatuses?.[0]?.state?.terminated).toMatchObject({ exitCode: 137 });
  });

  it("leaves no processes and no files of a deleted Pod", async () => {
    const pod = await cluster.untilPod("truth", ready);
    await cluster.deleteSandbox("truth");
    await cluster.untilPod("truth", deleted);
    expect(processesOf(pod)).toEqual([]);
    expect(readdirSync(cluster.directory.pods)).not.toContain(pod?.metadata.uid);
  });

  it("continues after its supervisor was killed and it was started again", async () => {
    await cluster.createSandbox("survivor", counting);
    const before = await cluster.untilPod("survivor", ready);
    const supervisor = identifyProcess(cluster.pid("supervisor"));
    process.kill(supervisor!.pid, "SIGKILL");
    await expect.poll(() => isProcessRunning(supervisor!)).toBe(false);
    expect((await cluster.up()).already).toBe(false);
    const after = await cluster.untilPod("survivor", ready);
    expect(after?.status?.containerStatuses).toEqual(before?.status?.containerStatuses);
  });

  it("stops all its processes, and keeps its objects", async () => {
    expect(await cluster.down()).toEqual({ wasUp: true });
    expect(podProcesses(cluster.directory.pods)).toEqual([]);
    expect(existsSync(cluster.directory.pods)).toBe(false);
    expect(await cluster.down()).toEqual({ wasUp: false });
    await cluster.up();
    const pod = await cluster.untilPod("survivor", (one) => one !== undefined);
    expect(pod?.status).toMatchObject({ phase: "Failed", reason: "NodeShutdown" });
  });
});
