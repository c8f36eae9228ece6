import { createHash } from "node:crypto";
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { request } from "undici";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parse } from "yaml";
import { Checkpoint, checkpointKind } from "../../src/api/kinds/checkpoint.ts";
import { isPodReady } from "../../src/api/schema/pod.ts";
import { sandboxKind } from "../../src/api/kinds/sandbox.ts";
import { refOf } from "../../src/cli/cluster/cluster.ts";
import type { KubeManifest } from "../../src/kube/object.ts";
import type { NodePod } from "../../src/local/node/pod.ts";
import { runProgram } from "../../src/local/tools/run-program.ts";
import { builtPrograms } from "../setup/built-package.ts";
import { pythonRootPath } from "../setup/python-image.ts";
import { TestCluster } from "./local-cluster.ts";

const image = "registry-ap-southeast-1.ack.aliyuncs.com/acs/code-interpreter:v1.6";

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

/** A stand-in for the interpreter: responds with its user id and the sum of the numbers in all requests. */
const server = `
from http.server import BaseHTTPRequestHandler, HTTPServer
import os
total = 0
class Adder(BaseHTTPRequestHandler):
    def do_GET(self):
        global total
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
  const kind = manifest.kind === "Sandbox" ? sandboxKind : checkpointKind;
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
