import { createHash } from "node:crypto";
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { request } from "undici";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parse } from "yaml";
import { Checkpoint, checkpointKind } from "../../src/api/kinds/checkpoint.ts";
import { isPodReady } from "../../src/api/schema/pod.ts";
import { Sandbox, sandboxKind } from "../../src/api/kinds/sandbox.ts";
import { SandboxSet, sandboxSetKind } from "../../src/api/kinds/sandbox-set.ts";
import { findCondition } from "../../src/kube/conditions.ts";
import { refOf } from "../../src/kube/resource-ref.ts";
import type { KubeManifest } from "../../src/kube/object.ts";
import type { NodePod } from "../../src/local/node/pod.ts";
import { runProgram } from "../../src/local/tools/run-program.ts";
import { builtPrograms } from "../setup/built-package.ts";
import { pythonRootPath } from "../setup/python-image.ts";
import { TestCluster } from "./local-cluster.ts";

const image = "registry-ap-southeast-1.ack.aliyuncs.com/acs/code-interpreter:v1.6";

const setImage = "registry-cn-hangzhou-vpc.ack.aliyuncs.com/acs/code-interpreter:v1.6";

/** The manifest in ACS's documentation, with another name and the annotations of a clone. */
const sandbox = (name: string, annotations = ""): string => `
apiVersion: agents.kruise.io/v1alpha1
kind: Sandbox
metadata:
  name: ${name}
spec:
  template:
    metadata:
      labels:
        agent: ${name}
        alibabacloud.com/acs: "true"
${annotations}
    spec:
      automountServiceAccountToken: false
      containers:
      - name: my-session
        image: ${image}
        env:
        - name: GODEBUG
          value: multipathtcp=0
        resources:
          requests:
            cpu: 1
            memory: 1Gi
            ephemeral-storage: "30Gi"
        ports:
        - containerPort: 49999
          name: interpreter
`;

const clone = (checkpointId: string): string =>
  sandbox(
    "code-demo-clone",
    `      annotations:
        ops.alibabacloud.com/pause-enabled: "true"
        checkpoint.alibabacloud.com/restore-from: "${checkpointId}"`,
  );

const checkpoint = `
apiVersion: agents.kruise.io/v1alpha1
kind: Checkpoint
metadata:
  name: checkpoint-code-demo
  namespace: default
spec:
  podName: code-demo
  keepRunning: true
  ttlAfterFinished: 30h
  persistentContents:
  - memory
  - filesystem
`;

/** A SandboxSet in ACS's documentation, with another number of replicas. */
const sandboxSet = (name: string, contents: readonly string[]): string => `
apiVersion: agents.kruise.io/v1alpha1
kind: SandboxSet
metadata:
  name: ${name}
  namespace: default
spec:
  replicas: 1
  persistentContents: [${contents.join(", ")}]
  template:
    metadata:
      labels:
        alibabacloud.com/acs: "true"
    spec:
      initContainers:
        - name: runtime
          image: registry-cn-hangzhou-vpc.ack.aliyuncs.com/acs/agent-runtime:v0.0.2
          command: [ "sh", "/workspace/entrypoint_inner.sh" ]
          volumeMounts:
            - name: envd-volume
              mountPath: /mnt/envd
          env:
            - name: ENVD_DIR
              value: /mnt/envd
            - name: __IGNORE_RESOURCE__
              value: "true"
          restartPolicy: Always
      containers:
      - name: sandbox
        image: ${setImage}
        imagePullPolicy: IfNotPresent
        resources:
          limits:
            cpu: 1
            memory: 1Gi
          requests:
            cpu: 1
            memory: 1Gi
        startupProbe:
          failureThreshold: 10
          httpGet:
            path: /health
            port: 49999
          initialDelaySeconds: 1
          periodSeconds: 2
          timeoutSeconds: 1
        env:
          - name: ENVD_DIR
            value: /mnt/envd
        volumeMounts:
          - name: envd-volume
            mountPath: /mnt/envd
        lifecycle:
          postStart:
            exec:
              command: [ "/bin/bash", "-c", "/mnt/envd/envd-run.sh" ]
      terminationGracePeriodSeconds: 1
      volumes:
        - name: envd-volume
          emptyDir: { }
`;

/** A stand-in for the interpreter: responds with its user id and the sum of the numbers in all requests. */
const server = `
from http.server import BaseHTTPRequestHandler, HTTPServer
import os
total = 0
class Adder(BaseHTTPRequestHandler):
    def do_GET(self):
        global total
        if self.path != "/health":
            total += int(self.path[1:] or 0)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(f"{os.getuid()} {total}".encode())
HTTPServer(("", 49999), Adder).serve_forever()
`;

let cluster: TestCluster;
let scratch: string;
beforeAll(async () => {
  scratch = await mkdtemp(join(tmpdir(), "ramet-manifests-"));
  cluster = await TestCluster.create({ ownImages: true });
  await cluster.up();
}, 400_000);
afterAll(async () => {
  await cluster.remove();
  await rm(scratch, { recursive: true, force: true });
});

async function ramet(...args: string[]): Promise<string> {
  const environment = Object.fromEntries(
    Object.entries(cluster.environment).filter((pair): pair is [string, string] => pair[1] !== undefined),
  );
  environment["KUBECONFIG"] = cluster.directory.kubeconfig;
  const [program, main] = builtPrograms.ramet;
  return (await runProgram(program, [main, ...args], { environment })).stdout;
}

/** An OCI image layout of the Python root with the server as its command, run by the image's user `nobody`. */
async function interpreterLayout(): Promise<string> {
  const layout = join(scratch, "layout");
  const blobs = join(layout, "blobs", "sha256");
  await mkdir(blobs, { recursive: true });
  const add = async (mediaType: string, path: string): Promise<object> => {
    const bytes = await readFile(path);
    const digest = createHash("sha256").update(bytes).digest("hex");
    await cp(path, join(blobs, digest));
    return { mediaType, digest: `sha256:${digest}`, size: bytes.length };
  };
  const write = async (name: string, value: unknown): Promise<string> => {
    await writeFile(join(scratch, name), JSON.stringify(value));
    return join(scratch, name);
  };
  const root = join(scratch, "root.tar");
  await runProgram("tar", ["-c", "-f", root, "-C", await pythonRootPath(), "."]);
  const layers = [await add("application/vnd.oci.image.layer.v1.tar", root)];
  const started = { Cmd: ["python3", "-u", "-c", server], User: "nobody", Env: ["PATH=/usr/local/bin:/usr/bin:/bin"] };
  const config = await write("config.json", { architecture: "amd64", os: "linux", config: started });
  const manifest = await write("manifest.json", {
    schemaVersion: 2,
    config: await add("application/vnd.oci.image.config.v1+json", config),
    layers,
  });
  const manifests = [await add("application/vnd.oci.image.manifest.v1+json", manifest)];
  await writeFile(join(layout, "index.json"), JSON.stringify({ schemaVersion: 2, manifests }));
  await writeFile(join(layout, "oci-layout"), JSON.stringify({ imageLayoutVersion: "1.0.0" }));
  return layout;
}

/** Applies a manifest as `kubectl apply --server-side -f` does, in the namespace `default`. */
async function apply(text: string): Promise<void> {
  const parsed = parse(text) as KubeManifest;
  const manifest = { ...parsed, metadata: { namespace: "default", ...parsed.metadata } };
  const kind = [sandboxKind, checkpointKind, sandboxSetKind].find((one) => one.kind === manifest.kind) ?? sandboxKind;
  await (await cluster.client()).resource(refOf(kind)).apply(manifest, { fieldManager: "kubectl" });
}

const ready = (pod: NodePod | undefined): boolean => pod !== undefined && isPodReady(pod);

/** The server's response at the Pod's address, as soon as it listens. */
async function ask(pod: NodePod | undefined, path: string): Promise<string> {
  const url = `http://${pod?.status?.podIP ?? ""}:49999${path}`;
  const deadline = AbortSignal.timeout(60_000);
  for (;;) {
    const response = await request(url, { signal: deadline }).catch((error: unknown) => {
      if (deadline.aborted) throw error;
    });
    if (response !== undefined) return response.body.text();
  }
}

describe("a sandbox from ACS's documentation", () => {
  it("runs from an image that was added under the manifest's image name, and is cloned with its memory", async () => {
    expect(await ramet("local", "image", "add", image, await interpreterLayout())).toMatch(/^sha256:[0-9a-f]{64}\n$/);
    expect(await ramet("local", "image", "ls")).toContain(image);
    await apply(sandbox("code-demo"));
    const source = await cluster.untilPod("code-demo", ready);
    expect(await ask(source, "/40")).toBe("65534 40");
    await apply(checkpoint);
    const at = { namespace: "default", name: "checkpoint-code-demo" };
    const taken = await cluster.until(
      refOf(checkpointKind),
      at,
      (value) => Checkpoint.parse(value),
      (one) => ["Succeeded", "Failed"].includes(one?.status?.phase ?? ""),
    );
    expect(taken?.status).toMatchObject({ phase: "Succeeded" });
    await apply(clone(taken?.status?.checkpointId ?? ""));
    const cloned = await cluster.untilPod("code-demo-clone", ready);
    expect(await ask(cloned, "/2")).toBe("65534 42");
    expect(await ask(source, "/1")).toBe("65534 41");
  });

  it("keeps running after its image was removed", async () => {
    await ramet("local", "image", "rm", image);
    expect(await ramet("local", "image", "ls")).not.toContain(image);
    expect(await ask(await cluster.untilPod("code-demo", ready), "/1")).toBe("65534 42");
  });

  it("becomes ready or fails according to its probes", async () => {
    await ramet("local", "image", "add", image, join(scratch, "layout"));
    const probe = (path: string) => ({ httpGet: { path, port: 49999 }, initialDelaySeconds: 1, periodSeconds: 1 });
    const withProbes = (name: string, probes: object): KubeManifest => {
      const manifest = parse(sandbox(name)) as { spec: { template: { spec: { containers: object[] } } } };
      Object.assign(manifest.spec.template.spec.containers[0]!, probes);
      return manifest as unknown as KubeManifest;
    };
    await apply(JSON.stringify(withProbes("healthy", { startupProbe: probe("/0") })));
    const pod = await cluster.untilPod("healthy", ready);
    expect(pod?.status?.containerStatuses).toMatchObject([{ ready: true, started: true }]);
    // The server closes the connection without a response if the path is not a number.
    await apply(JSON.stringify(withProbes("unhealthy", { livenessProbe: probe("/x") })));
    const ended = await cluster.untilPod("unhealthy", (one) => one?.status?.phase === "Failed");
    expect(ended?.status?.["message"]).toMatch(/^the liveness probe failed: .*\(3 times\)$/);
  });
});

describe("the SandboxSets of ACS's documentation", () => {
  it.each([
    ["code-interpreter-mem", ["memory", "filesystem"], "65534 42"],
    ["code-interpreter-no-mem", ["filesystem"], "65534 2"],
  ])("%s becomes available, and clones of its sandboxes have what it keeps", async (name, contents, expected) => {
    await ramet("local", "image", "add", setImage, join(scratch, "layout"));
    await apply(sandboxSet(name, contents));
    const at = { namespace: "default", name };
    const available = (set: SandboxSet | undefined): boolean => set?.status?.availableReplicas === 1;
    await cluster.until(refOf(sandboxSetKind), at, (value) => SandboxSet.parse(value), available);
    const source = (await ramet("claim", name)).trim();
    const read = (value: unknown) => Sandbox.parse(value);
    const found = await (await cluster.client()).resource(refOf(sandboxKind), read).get({ ...at, name: source });
    expect(findCondition(found.status?.conditions, "AgentRuntimeInjected")).toMatchObject({
      status: "False",
      reason: "ReplacedByGuest",
      message: expect.stringContaining("Skipped the init container runtime and the postStart hook") as string,
    });
    expect(await ramet("explain", `sandbox/${source}`)).toMatch(
      /^STATE +degraded \(Running\)\nCAUSE .*: spec\.template\.spec\.initContainers\[0\] has no effect: .*\[ReplacedByGuest\]$/m,
    );
    const pod = await cluster.untilPod(source, ready);
    expect(pod?.spec.initContainers ?? []).toEqual([]);
    expect(await ask(pod, "/40")).toBe("65534 40");
    await ramet("sandbox", "exec", "--direct", "--user", "root", source, "--", "sh", "-c", "echo hello > /my-file");
    const id = (await ramet("checkpoint", "create", source)).trim();
    await ramet("sandbox", "rm", source);
    const copy = `copy-of-${name}`;
    await ramet("sandbox", "create", "--from", id, "--name", copy);
    expect(await ask(await cluster.untilPod(copy, ready), "/2")).toBe(expected);
    expect(await ramet("sandbox", "exec", "--direct", copy, "--", "cat", "/my-file")).toBe("hello\n");
  });
});
