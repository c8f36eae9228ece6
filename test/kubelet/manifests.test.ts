import { readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { imageNames } from "./images.ts";
import { ask } from "../setup/gateway.ts";
import { RametError } from "../../src/base/errors.ts";
import { cellCapabilities } from "../../src/api/pod/cell-container.ts";
import { capabilityBits, cellStatuses, withoutCapability } from "./cell-rights.ts";
import { cellSeccompProfile } from "./node.ts";
import { controllers, gateways, makeStoreSecret, openWorld, type World } from "./world.ts";

const long = { timeout: 90_000, interval: 250 };

/**
 * Tests an installation by `ramet manifests` on a real kubelet with containerd and runc, with the images of images/Dockerfile and a
 * store in S3. Does not test a cloud's CNI, AppArmor and seccomp, several nodes, or cgroup v2.
 */
describe("an installation by ramet manifests", () => {
  let world: World;
  let directory: string;

  beforeAll(async () => {
    world = await openWorld();
    directory = join(world.directory, "kustomization");
  });

  const ramet: World["ramet"] = (...args) => world.ramet(...args);
  const kubectl: World["kubectl"] = (...args) => world.kubectl(...args);
  const inSandbox: World["inSandbox"] = (...args) => world.inSandbox(...args);
  const readyPods: World["readyPods"] = (...args) => world.readyPods(...args);

  it("runs two controllers with only the declared permissions, and one of them leads", async () => {
    const address = `s3://checkpoints/ramet?endpoint=${encodeURIComponent(world.s3.endpoint)}&allow-insecure=true`;
    const images = ["--image", imageNames.controller, "--cell-image", imageNames.cell];
    await withoutCapability(world, process.env["RAMET_TEST_WITHOUT_CAPABILITY"]);
    const cells = ["--cell-seccomp-profile", cellSeccompProfile];
    await ramet("manifests", ...images, ...cells, "--store", address, "--store-secret", "s3", "--out", directory);
    await kubectl("apply", "-f", join(directory, "namespace.yaml"));
    await makeStoreSecret(world);
    await kubectl("apply", "-k", directory);
    await expect.poll(() => readyPods(...controllers), long).toBe(2);
    await expect.poll(() => world.leader(), long).toMatch(/^ramet-controller-/);
    const logs = (): Promise<string> => kubectl("logs", ...controllers, "--tail=-1");
    await expect.poll(logs, long).toContain("the controllers are running");
    expect(await logs()).not.toMatch(/forbidden/i);
  });

  it("runs a sandbox with its init container, sidecar, volumes, variables, probes and hooks", async () => {
    await world.apply(template("whole", wholePod));
    await ramet("sandbox", "create", "--template", "whole", "--name", "whole");
    await expect.poll(() => readyPods("-l", "agents.kruise.io/sandbox-name=whole"), long).toBe(1);
    expect(await inSandbox("whole", "cat /shared/init /started; uname -r")).toMatch(
      /^from-init\nnode-a given\n\S*gvisor$/,
    );
    // The machine and Ramet's own Pods can reach this address.
    const reach = `python3 -c 'import urllib.request as r; r.urlopen("${world.s3.endpoint}", timeout=5)' 2>&1 | tail -1`;
    expect(await inSandbox("whole", reach)).toContain("Connection reset by peer");
    await ramet("sandbox", "rm", "whole");
    await expect
      .poll(() => kubectl("get", "pods", "--field-selector=metadata.name=whole", "-o", "name"), long)
      .toBe("");
  });

  it("is ready when its program listens to the port of a tcpSocket probe, and not before", async () => {
    await world.apply(template("listening", listeningPod));
    await ramet("sandbox", "create", "--template", "listening", "--name", "listening", "--no-wait");
    const explained = () => ramet("explain", "sandbox/listening");
    const failing = "The readiness probe of the container sandbox fails: port 9000 does not accept connections";
    await expect.poll(explained, long).toContain(failing);
    expect(await readyPods("-l", "agents.kruise.io/sandbox-name=listening")).toBe(0);
    const address = await kubectl("get", "pod", "listening", "-o", "jsonpath={.status.podIP}");
    expect((await fetch(`http://${address}:8000/listen`)).status).toBe(200);
    await expect.poll(() => readyPods("-l", "agents.kruise.io/sandbox-name=listening"), long).toBe(1);
    // A liveness probe does not end the source of a checkpoint.
    await ramet("checkpoint", "create", "listening");
    expect(await readyPods("-l", "agents.kruise.io/sandbox-name=listening")).toBe(1);
    await ramet("sandbox", "rm", "listening");
  });

  it("clones a sandbox from a checkpoint in S3 with its memory, and the source keeps running", async () => {
    await world.apply(template("counting", countingPod));
    await ramet("sandbox", "create", "--template", "counting", "--name", "source");
    await expect.poll(() => inSandbox("source", "cat /count"), long).toMatch(/^[1-9]/);
    await inSandbox("source", "echo kept > /my-file; : > /pause; sleep 0.3");
    const before = Number(await inSandbox("source", "cat /count"));
    const id = await ramet("checkpoint", "create", "source");
    await ramet("sandbox", "create", "--from", id, "--name", "clone");
    expect(await inSandbox("clone", "hostname; cat /my-file /count")).toBe(`clone\nkept\n${before}`);
    await inSandbox("clone", "rm /pause");
    await expect.poll(async () => Number(await inSandbox("clone", "cat /count")), long).toBeGreaterThan(before);
    expect(Number(await inSandbox("source", "cat /count"))).toBe(before);
    // The capabilities of every cell, as a mask, and its seccomp filter.
    const mask = cellCapabilities.reduce((sum, name) => sum | (1n << BigInt(capabilityBits[name])), 0n);
    for (const status of await cellStatuses()) {
      expect(status).toMatchObject({ CapEff: mask.toString(16).padStart(16, "0"), Seccomp: "2" });
    }
  });

  it("lets no cell leave its memory in a core file", async () => {
    for (const status of await cellStatuses()) expect(status["core file size"]).toMatch(/^1 +1 +bytes$/);
  });

  it("runs cells in user namespaces if the node reports that its runtime supports them, and not otherwise", async () => {
    const path = '{.items[*].status.runtimeHandlers[?(@.name=="")].features.userNamespaces}';
    const supported = (await kubectl("get", "nodes", "-o", `jsonpath=${path}`)) === "true";
    for (const status of await cellStatuses()) expect(status["user of root"] !== "0").toBe(supported);
  });

  it.each([
    ["code-interpreter-mem", ["memory", "filesystem"], "42"],
    ["code-interpreter-no-mem", ["filesystem"], "2"],
  ])("makes ACS's SandboxSet %s available, and clones have what it keeps", async (name, contents, expected) => {
    await world.apply(JSON.stringify(documentedSet(name, contents)));
    const available = () => kubectl("get", "sandboxset", name, "-o", "jsonpath={.status.availableReplicas}");
    await expect.poll(available, long).toBe("1");
    const source = await ramet("claim", name);
    const condition = `jsonpath={.status.conditions[?(@.type=="AgentRuntimeInjected")].reason}`;
    expect(await kubectl("get", "sandbox", source, "-o", condition)).toBe("ReplacedByGuest");
    const add = (number: number) =>
      `python3 -c 'import urllib.request as r; print(r.urlopen("http://127.0.0.1:49999/${number}").read().decode())'`;
    expect(await inSandbox(source, `echo hello > /my-file; ${add(40)}`)).toBe("40");
    const id = await ramet("checkpoint", "create", source);
    await ramet("sandbox", "rm", source);
    const copy = `copy-of-${name}`;
    await ramet("sandbox", "create", "--from", id, "--name", copy);
    expect(await inSandbox(copy, `cat /my-file; ${add(2)}`)).toBe(`hello\n${expected}`);
    await kubectl("delete", "sandboxset", name);
    await ramet("sandbox", "rm", copy);
  });

  it("denies what a cell does not need with the seccomp profile, also to root with SYS_ADMIN", async () => {
    await world.apply(JSON.stringify(denied));
    await expect
      .poll(() => kubectl("get", "pod", "denied", "-o", "jsonpath={.status.phase}"), long)
      .toMatch(/^(Succeeded|Failed)$/);
    // 1 is EPERM, 38 is ENOSYS.
    const expected = Object.keys(deniedCalls).map((name) => `${name} ${name === "io_uring_setup" ? 38 : 1}`);
    expect((await kubectl("logs", "denied")).trim().split("\n")).toEqual(expected);
  });

  it("refuses templates that reach the node, and exec into a cell, from users of the namespace", async () => {
    await kubectl("create", "role", "developer", "--verb=create", "--resource=sandboxes.agents.kruise.io");
    await kubectl("create", "rolebinding", "developer", "--role=developer", "--user=mallory");
    await kubectl("create", "rolebinding", "editor", "--clusterrole=edit", "--user=editor");
    const refusal = (...args: string[]): Promise<string> =>
      kubectl(...args).then(
        () => "",
        (error: unknown) => RametError.from(error).message,
      );
    for (const [field, spec] of Object.entries(abuses)) {
      const path = join(world.directory, "abuse.json");
      const metadata = { name: "abuse", namespace: "default" };
      const whole = { containers: [{ name: "sandbox", image: imageNames.python }], ...spec };
      await writeFile(path, JSON.stringify({ ...sandboxKindOf, metadata, spec: { template: { spec: whole } } }));
      expect([field, await refusal("create", "--as", "mallory", "-f", path)]).toEqual([
        field,
        expect.stringMatching(new RegExp(`cannot use ${field}|names the Secret s3|which you cannot impersonate`)),
      ]);
    }
    expect(await refusal("auth", "can-i", "create", "pods/exec", "--as", "editor")).toBe("");
    const denied =
      /exec, attach, port-forward and proxy are not allowed|ephemeral containers are not allowed|cannot patch resource "pods\/ephemeralcontainers"/;
    expect(await refusal("exec", "--as", "editor", "clone", "--", "id")).toMatch(denied);
    expect(await refusal("attach", "--as", "editor", "clone")).toMatch(denied);
    expect(await refusal("port-forward", "--as", "editor", "pod/clone", "39981:9981")).toMatch(denied);
    expect(await refusal("debug", "--as", "editor", "clone", `--image=${imageNames.python}`, "--", "id")).toMatch(
      denied,
    );
    expect(await kubectl("get", "sandbox,pod", "-o", "name")).not.toContain("abuse");
  });

  it("fills a set, and restores a version of a named snapshot in a claimed sandbox", async () => {
    await world.apply(snapshotAndSet);
    await expect
      .poll(() => kubectl("get", "namedsnapshot", "data", "-o", "jsonpath={.status.version}"), long)
      .toBe("1");
    await expect
      .poll(() => kubectl("get", "sandboxset", "pool", "-o", "jsonpath={.status.availableReplicas}"), long)
      .toBe("2");
    const name = await ramet("claim", "pool", "--from", "data");
    const look = "cat /data/seed; tail -1 /data/rows; stat -c '%u %g %a' /data/theirs";
    expect(await inSandbox(name, look)).toBe("a,b\n1000\n1000 1000 6755");
    await ramet("sandbox", "create", "--from", "data", "--name", "on-layers");
    expect(await inSandbox("on-layers", look)).toBe("a,b\n1000\n1000 1000 6755");
  });

  it("has the other controller lead when the leader's Pod is deleted, and sandboxes keep running", async () => {
    const [before = ""] = (await world.leader()).split("_");
    await kubectl("delete", "pod", "-n", "ramet-system", before, "--now");
    await expect.poll(() => world.leader(), long).not.toMatch(new RegExp(`^(${before}.*|)$`));
    const name = await ramet("claim", "pool");
    expect(await inSandbox(name, "hostname")).toBe(name);
    expect(await inSandbox("clone", "cat /my-file")).toBe("kept");
  });

  it("proxies requests of authorized clients to any port of a sandbox, also while a gateway is being deleted", async () => {
    await expect.poll(() => readyPods(...gateways), long).toBe(2);
    await kubectl("create", "serviceaccount", "agent");
    await kubectl("create", "role", "reach", "--verb=create", "--resource=sandboxes.agents.kruise.io/proxy");
    const token = (await kubectl("create", "token", "agent", "--audience=ramet-gateway")).trim();
    const show = (path: string, ...what: string[]) =>
      kubectl("get", "-n", "ramet-system", ...what, "-o", `jsonpath=${path}`);
    const addresses = (await show("{.items[*].status.podIP}", "pods", ...gateways)).split(" ");
    await inSandbox("clone", "cd / && (python3 -m http.server 8123 >/dev/null 2>&1 &)");
    const asked = (address: string, path = "/my-file", port = 8123) =>
      ask({ address, port: 8080 }, { id: "default--clone", port }, { token, path });
    for (const address of addresses) expect((await asked(address)).status).toBe(403);
    await kubectl("create", "rolebinding", "reach", "--role=reach", "--serviceaccount=default:agent");
    for (const address of addresses) {
      await expect.poll(() => asked(address).then(({ text }) => text), long).toBe("kept\n");
    }
    // Also a port on which a program listens only on a loopback address.
    const loopback = { 8124: "127.0.0.1", 8125: "::1" };
    for (const [port, host] of Object.entries(loopback)) {
      await inSandbox("clone", `cd / && (python3 -m http.server ${port} --bind ${host} >/dev/null 2>&1 &)`);
      const text = async () => (await asked(addresses[0] ?? "", "/my-file", Number(port))).text;
      await expect.poll(text, long).toBe("kept\n");
    }
    // Clients in the cluster use the Service.
    expect(await show("{.spec.ports[0].port}", "service", "ramet-gateway")).toBe("80");
    const ready = "{.items[*].endpoints[?(@.conditions.ready==true)].addresses[0]}";
    const endpoints = () => show(ready, "endpointslices", "-l", "kubernetes.io/service-name=ramet-gateway");
    expect((await endpoints()).split(" ").sort()).toEqual(addresses.sort());

    const [deleted = ""] = (await kubectl("get", "pods", ...gateways, "-o", "name")).split("\n");
    const address = await show("{.status.podIP}", deleted);
    await kubectl("delete", "-n", "ramet-system", deleted, "--wait=false");
    // The Service drops the gateway before it stops accepting connections.
    await expect.poll(endpoints, { timeout: 10_000, interval: 50 }).not.toContain(address);
    expect((await asked(address)).text).toBe("kept\n");
    await kubectl("wait", "-n", "ramet-system", "--for=delete", deleted, "--timeout=60s");
    await expect.poll(() => readyPods(...gateways), long).toBe(2);
    expect(await kubectl("logs", ...gateways, "--tail=-1")).not.toMatch(/forbidden:/i);
  });

  it("keeps CRDs and running sandboxes when it is removed", async () => {
    const lasting = ["custom-resource-definition.yaml", "namespace.yaml", "kustomization.yaml"];
    // The leader releases its lease when it exits, while it still has the permission.
    await kubectl("delete", "-f", join(directory, "deployment.yaml"));
    await expect.poll(() => kubectl("get", "pods", ...controllers, "-o", "name"), long).toBe("");
    expect(await world.leader()).toBe("");
    const files = (await readdir(directory)).filter((name) => ![...lasting, "deployment.yaml"].includes(name));
    await kubectl("delete", ...files.flatMap((name) => ["-f", join(directory, name)]));
    expect(await kubectl("get", "sandbox", "clone", "-o", "name")).toContain("clone");
    expect(await readyPods("--field-selector=metadata.name=clone")).toBe(1);
  });
});

function template(name: string, spec: object): string {
  const kind = {
    apiVersion: "agents.kruise.io/v1alpha1",
    kind: "SandboxTemplate",
    metadata: { name, namespace: "default" },
  };
  return JSON.stringify({ ...kind, spec: { template: { spec: { terminationGracePeriodSeconds: 5, ...spec } } } });
}

const resources = { requests: { cpu: "50m", memory: "64Mi" }, limits: { cpu: "1", memory: "512Mi" } };
const sandbox = { name: "sandbox", image: imageNames.python, resources };

const shell = (script: string): string[] => ["sh", "-c", script];
const shared = [{ name: "shared", mountPath: "/shared" }];

const wholePod = {
  initContainers: [
    { name: "init", image: imageNames.python, command: shell("echo from-init > /shared/init"), volumeMounts: shared },
  ],
  containers: [
    {
      ...sandbox,
      command: ["python3", "-m", "http.server", "8000"],
      ports: [{ containerPort: 8000 }],
      env: [
        { name: "NODE", valueFrom: { fieldRef: { fieldPath: "spec.nodeName" } } },
        { name: "GIVEN", value: "given" },
      ],
      readinessProbe: { exec: { command: ["test", "-e", "/started"] }, periodSeconds: 1, timeoutSeconds: 5 },
      livenessProbe: { httpGet: { path: "/", port: 8000 }, periodSeconds: 2 },
      lifecycle: {
        postStart: { exec: { command: shell("echo $NODE $GIVEN > /started") } },
        preStop: { exec: { command: shell("echo stopped > /shared/stop") } },
      },
      volumeMounts: [...shared, { name: "own", mountPath: "/own" }],
    },
    { name: "sidecar", image: imageNames.python, command: ["sleep", "infinity"], volumeMounts: shared },
  ],
  volumes: [
    { name: "shared", emptyDir: {} },
    { name: "own", emptyDir: { sizeLimit: "10Mi" } },
  ],
};

/** Listens to port 9000 after a request to port 8000. */
const listensOnRequest = `
import http.server, socket
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        global web
        web = socket.create_server(("", 9000))
        self.send_response(200)
        self.end_headers()
http.server.HTTPServer(("", 8000), Handler).serve_forever()
`;

const listeningPod = {
  containers: [
    {
      ...sandbox,
      command: ["python3", "-u", "-c", listensOnRequest],
      ports: [{ containerPort: 8000 }, { name: "web", containerPort: 9000 }],
      startupProbe: { tcpSocket: { port: 8000 }, periodSeconds: 1, timeoutSeconds: 5, failureThreshold: 90 },
      readinessProbe: { tcpSocket: { port: "web" }, periodSeconds: 1, timeoutSeconds: 5 },
      livenessProbe: { tcpSocket: { port: 8000 }, periodSeconds: 1, timeoutSeconds: 5, failureThreshold: 2 },
    },
  ],
};

/** A stand-in for the interpreter: responds with the sum of the numbers in all requests. */
const adder = `
from http.server import BaseHTTPRequestHandler, HTTPServer
total = 0
class Adder(BaseHTTPRequestHandler):
    def do_GET(self):
        global total
        if self.path != "/health":
            total += int(self.path[1:])
        self.send_response(200)
        self.end_headers()
        self.wfile.write(str(total).encode())
HTTPServer(("", 49999), Adder).serve_forever()
`;

/** A SandboxSet in ACS's documentation with one replica, another image, less memory, and the stand-in as its command. */
const documentedSet = (name: string, persistentContents: readonly string[]) => ({
  apiVersion: "agents.kruise.io/v1alpha1",
  kind: "SandboxSet",
  metadata: { name, namespace: "default" },
  spec: {
    replicas: 1,
    persistentContents,
    template: {
      metadata: { labels: { "alibabacloud.com/acs": "true" } },
      spec: {
        initContainers: [
          {
            name: "runtime",
            image: "registry-cn-hangzhou-vpc.ack.aliyuncs.com/acs/agent-runtime:v0.0.2",
            command: ["sh", "/workspace/entrypoint_inner.sh"],
            volumeMounts: [{ name: "envd-volume", mountPath: "/mnt/envd" }],
            env: [
              { name: "ENVD_DIR", value: "/mnt/envd" },
              { name: "__IGNORE_RESOURCE__", value: "true" },
            ],
            restartPolicy: "Always",
          },
        ],
        containers: [
          {
            ...sandbox,
            command: ["python3", "-u", "-c", adder],
            imagePullPolicy: "IfNotPresent",
            startupProbe: {
              failureThreshold: 10,
              httpGet: { path: "/health", port: 49999 },
              initialDelaySeconds: 1,
              periodSeconds: 2,
              timeoutSeconds: 1,
            },
            env: [{ name: "ENVD_DIR", value: "/mnt/envd" }],
            volumeMounts: [{ name: "envd-volume", mountPath: "/mnt/envd" }],
            lifecycle: { postStart: { exec: { command: ["/bin/bash", "-c", "/mnt/envd/envd-run.sh"] } } },
          },
        ],
        terminationGracePeriodSeconds: 1,
        volumes: [{ name: "envd-volume", emptyDir: {} }],
      },
    },
  },
});

/** System calls of amd64 and arm64. */
const deniedCalls = {
  keyctl: [250, 219],
  userfaultfd: [323, 282],
  bpf: [321, 280],
  perf_event_open: [298, 241],
  open_by_handle_at: [304, 265],
  init_module: [175, 105],
  kexec_load: [246, 104],
  open_tree: [428, 428],
  mount_setattr: [442, 442],
  process_vm_readv: [310, 270],
  io_uring_setup: [425, 425],
};
const callEach = `import ctypes, platform
libc = ctypes.CDLL(None, use_errno=True)
for name, numbers in ${JSON.stringify(deniedCalls)}.items():
    libc.syscall(numbers[platform.machine() == "aarch64"], 0, 0, 0, 0, 0)
    print(name, ctypes.get_errno())`;
const denied = {
  apiVersion: "v1",
  kind: "Pod",
  metadata: { name: "denied", namespace: "default" },
  spec: {
    restartPolicy: "Never",
    containers: [
      {
        name: "main",
        image: imageNames.python,
        command: ["python3", "-c", callEach],
        securityContext: {
          capabilities: { add: ["SYS_ADMIN", "SYS_PTRACE", "SYS_MODULE", "SYS_BOOT", "DAC_READ_SEARCH"] },
          seccompProfile: { type: "Localhost", localhostProfile: cellSeccompProfile },
        },
      },
    ],
  },
};

const sandboxKindOf = { apiVersion: "agents.kruise.io/v1alpha1", kind: "Sandbox" };
const container = { name: "sandbox", image: imageNames.python };

/** Specs of Pods that reach further than a sandbox, by the name of their field in the restrictions. */
const abuses = {
  hostPath: { volumes: [{ name: "node", hostPath: { path: "/" } }] },
  hostNetwork: { hostNetwork: true },
  hostPID: { hostPID: true },
  hostIPC: { hostIPC: true },
  nodeName: { nodeName: "node-a" },
  shareProcessNamespace: { shareProcessNamespace: true },
  privileged: { containers: [container, { ...container, name: "two", securityContext: { privileged: true } }] },
  capabilities: {
    containers: [container, { ...container, name: "two", securityContext: { capabilities: { add: ["SYS_ADMIN"] } } }],
  },
  hostPorts: { containers: [{ ...container, ports: [{ containerPort: 80, hostPort: 80 }] }] },
  serviceAccountName: { serviceAccountName: "admin" },
  secret: { volumes: [{ name: "s", secret: { secretName: "s3" } }] },
};

const counting = "i=0; while :; do [ -e /pause ] || { i=$((i+1)); echo $i > /count; }; sleep 0.1; done";
const countingPod = { containers: [{ ...sandbox, command: shell(counting) }] };

const snapshotAndSet = [
  JSON.parse(template("python", { containers: [{ ...sandbox, command: ["sleep", "infinity"] }] })) as object,
  {
    apiVersion: "ramet.dev/v1alpha1",
    kind: "NamedSnapshot",
    metadata: { name: "data", namespace: "default" },
    spec: {
      from: { template: { name: "python" } },
      recipe: [
        { copy: { path: "/data/seed", content: "a,b\n" } },
        { run: "seq 1000 > /data/rows; touch /data/theirs; chown 1000:1000 /data/theirs; chmod 6755 /data/theirs" },
        { start: "python3 -m http.server 8001" },
        { waitFor: { port: 8001 } },
      ],
      layers: true,
    },
  },
  {
    apiVersion: "agents.kruise.io/v1alpha1",
    kind: "SandboxSet",
    metadata: { name: "pool", namespace: "default" },
    spec: { replicas: 2, templateRef: { name: "python" } },
  },
]
  .map((object) => JSON.stringify(object))
  .join("\n---\n");
