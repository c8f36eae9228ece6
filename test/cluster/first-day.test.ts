import { once } from "node:events";
import { chmod, mkdir, mkdtemp, readFile, readlink, rm, symlink, writeFile, stat } from "node:fs/promises";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { sandboxKind } from "../../src/api/kinds/sandbox.ts";
import { sandboxSetKind } from "../../src/api/kinds/sandbox-set.ts";
import { sandboxTemplateKind } from "../../src/api/kinds/sandbox-template.ts";
import { KubeClient } from "../../src/kube/kube-client.ts";
import { connectionFromKubeconfig } from "../../src/kube/kubeconfig.ts";
import { coreResources, refOf } from "../../src/kube/resource-ref.ts";
import { CliHome } from "./cli-home.ts";

let home: string;
let cli: CliHome;
const ramet = (...args: string[]) => cli.ramet(args);

beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), "ramet-first-day-"));
  cli = new CliHome(home);
  const up = await ramet("local", "up");
  expect(up.exitCode, up.stderr).toBe(0);
  const made = await ramet("sandbox", "create", "--template", "python", "--name", "a");
  expect(made, made.stderr).toMatchObject({ exitCode: 0 });
});

afterAll(async () => {
  const down = await ramet("local", "down", "--purge");
  expect(down.exitCode, down.stderr).toBe(0);
  await rm(home, { recursive: true, force: true });
});

async function clusterClient(): Promise<KubeClient> {
  const status = JSON.parse((await ramet("local", "status", "-o", "json")).stdout) as { kubeconfig: string };
  return new KubeClient(await connectionFromKubeconfig({ path: status.kubeconfig }));
}

interface Explained {
  state: string;
  reason?: string;
  cause: string;
  action: string;
  unknown: string[];
}

async function explain(object: string): Promise<Explained> {
  const { stdout, stderr, exitCode } = await ramet("explain", object, "-o", "json");
  expect(exitCode, stderr).toBe(0);
  return JSON.parse(stdout) as Explained;
}

const containing = (text: string) => expect.stringContaining(text) as string;

describe("ramet explain", () => {
  it("finds nothing to do about a sandbox that works", async () => {
    expect(await explain("sandbox/a")).toMatchObject({ state: "healthy", unknown: [] });
  });

  it("names an image that cannot be pulled, and a template that does not exist", async () => {
    await ramet("sandbox", "create", "--image", "nosuch:9", "--name", "im", "--no-wait");
    const client = await clusterClient();
    await client.resource(refOf(sandboxKind)).create({
      apiVersion: "agents.kruise.io/v1alpha1",
      kind: "Sandbox",
      metadata: { name: "nt", namespace: "default" },
      spec: { templateRef: { name: "nope" } },
    });
    await client.close();
    await expect
      .poll(() => explain("sandbox/im"), { timeout: 60_000 })
      .toMatchObject({
        state: "stuck",
        reason: "ImagePullBackOff",
        cause: expect.stringContaining("nosuch:9") as string,
      });
    await expect
      .poll(() => explain("sandbox/nt"), { timeout: 60_000 })
      .toMatchObject({ state: "stuck", reason: "NotFound", cause: expect.stringContaining("nope") as string });
  });

  it("names the entrypoint that an image lacks, and not only the probe that fails without a program", async () => {
    const bare = join(home, "bare");
    await mkdir(join(bare, "etc"), { recursive: true });
    expect((await ramet("local", "image", "add", "bare", bare)).exitCode).toBe(0);
    const probe = (failureThreshold: number) => ({ tcpSocket: { port: 8000 }, periodSeconds: 1, failureThreshold });
    const containers = (failureThreshold: number) => [
      { name: "main", image: "bare", startupProbe: probe(failureThreshold) },
    ];
    const spec = (failureThreshold: number) => ({ template: { spec: { containers: containers(failureThreshold) } } });
    const client = await clusterClient();
    const apiVersion = "agents.kruise.io/v1alpha1";
    const named = (name: string) => ({ name, namespace: "default" });
    const sandboxes = client.of(sandboxKind);
    await sandboxes.create({ apiVersion, kind: "Sandbox", metadata: named("probed"), spec: spec(600) });
    await sandboxes.create({ apiVersion, kind: "Sandbox", metadata: named("bare"), spec: spec(2) });
    const sets = client.of(sandboxSetKind);
    await sets.create({ apiVersion, kind: "SandboxSet", metadata: named("bares"), spec: { replicas: 1, ...spec(2) } });
    await client.close();
    const cause = containing("its template has no command and its image has no entrypoint");
    const action = containing("Set command in the template");
    const reason = "EntrypointMissing";
    const explained = (object: string) => expect.poll(() => explain(object), { timeout: 60_000 });
    await explained("sandbox/probed").toMatchObject({ state: "stuck", cause, action });
    await explained("sandbox/bare").toMatchObject({ state: "failed", reason, cause, action });
    await explained("set/bares").toMatchObject({ cause, action });
    const shown = await ramet("sandbox", "get", "probed");
    expect(shown.stdout).toContain("its image has no entrypoint");
    await ramet("set", "rm", "bares");
    await ramet("sandbox", "rm", "probed", "bare");
  });

  it("exits with 3 for a template that does not exist, and creates no sandbox that waits for it", async () => {
    const made = await ramet("sandbox", "create", "--template", "pyhton", "--name", "typo");
    expect(made).toMatchObject({ exitCode: 3 });
    expect(made.stderr).toContain("List the existing ones with: ramet get templates -n default\n");
    expect((await ramet("sandbox", "get", "typo")).exitCode).toBe(3);
  });

  it("exits with 3 for an object that does not exist, and explains error codes without a cluster", async () => {
    expect((await ramet("explain", "sandbox/none")).exitCode).toBe(3);
    expect((await ramet("explain", "StoreFull")).stdout).toContain("no space left");
  });
});

describe("ramet snapshot", () => {
  it("says that a template's command must keep running", async () => {
    const client = await clusterClient();
    const template = { spec: { containers: [{ name: "main", image: "python", command: ["true"] }] } };
    await client.resource(refOf(sandboxTemplateKind)).create({
      apiVersion: "agents.kruise.io/v1alpha1",
      kind: "SandboxTemplate",
      metadata: { name: "ends", namespace: "default" },
      spec: { template },
    });
    await client.close();
    const file = join(home, "ends.yaml");
    await writeFile(file, endsAtOnce);
    const applied = await ramet("snapshot", "apply", "-f", file, "--timeout", "0");
    expect(applied.exitCode, applied.stdout).toBe(1);
    expect(applied.stderr).toContain("Give its template a command that keeps running, such as sleep infinity");
    expect(await explain("snapshot/ends")).toMatchObject({
      state: "failed",
      action: "Give its template a command that keeps running, such as sleep infinity",
    });
  });
});

const endsAtOnce = `
apiVersion: ramet.dev/v1alpha1
kind: NamedSnapshot
metadata: { name: ends }
spec: { from: { template: { name: ends } }, recipe: [{ run: sleep 30 }] }
`;

describe("ramet doctor", () => {
  it("finds no error in a local cluster, and says what the API does not show", async () => {
    const { stdout, stderr, exitCode } = await ramet("doctor", "--timeout", "20s", "-o", "json");
    expect(exitCode, stdout + stderr).toBe(0);
    const { findings } = JSON.parse(stdout) as { findings: { check: string; level: string }[] };
    const levels = Object.fromEntries(findings.map(({ check, level }) => [check, level]));
    expect(levels).toMatchObject({
      kubernetes: "ok",
      nodes: "ok",
      crds: "ok",
      rbac: "ok",
      volumes: "ok",
      "other-controllers": "ok",
      clock: "ok",
    });
  });

  it("exits with 1 for a namespace that refuses cells", async () => {
    const client = await clusterClient();
    const metadata = { name: "strict", labels: { "pod-security.kubernetes.io/enforce": "baseline" } };
    await client.resource(coreResources.namespaces).create({ apiVersion: "v1", kind: "Namespace", metadata });
    await client.close();
    const { stdout, exitCode } = await ramet("doctor", "-n", "strict", "--timeout", "20s");
    expect(exitCode).toBe(1);
    expect(stdout).toContain("kubectl label namespace strict pod-security.kubernetes.io/enforce=privileged");
    await ramet("sandbox", "create", "--image", "python", "--name", "b", "-n", "strict", "--no-wait");
    const why = async () => (await ramet("explain", "sandbox/b", "-n", "strict")).stdout;
    await expect.poll(why, { timeout: 60_000 }).toContain('the namespace strict enforces "baseline:latest"');
  });
});

describe("files, ports and failed objects", () => {
  it("copies a directory with its links into a sandbox and back", async () => {
    const source = join(home, "source");
    await mkdir(join(source, "deep"), { recursive: true });
    await writeFile(join(source, "deep", "with space"), "content");
    await symlink("deep/with space", join(source, "link"));
    expect(await ramet("sandbox", "cp", source, "a:/copied")).toMatchObject({ exitCode: 0, stderr: "" });
    expect(await ramet("sandbox", "cp", source, "a:/copied/")).toMatchObject({ exitCode: 0, stderr: "" });
    expect(await cli.exec("a", "cat", "/copied/link", "/copied/source/link")).toBe("contentcontent");
    const target = join(home, "target");
    expect(await ramet("sandbox", "cp", "a:/copied", target)).toMatchObject({ exitCode: 0, stderr: "" });
    expect(await readFile(join(target, "source", "deep", "with space"), "utf8")).toBe("content");
    expect(await readlink(join(target, "link"))).toBe("deep/with space");
  });

  it("copies a file with its mode, into a sandbox and back", async () => {
    const script = join(home, "run.sh");
    await writeFile(script, "#!/bin/sh\necho ok\n", { mode: 0o755 });
    for (const mode of [0o755, 0o640]) {
      await chmod(script, mode);
      expect(await ramet("sandbox", "cp", script, "a:/tmp/run.sh")).toMatchObject({
        exitCode: 0,
        stdout: "",
        stderr: "",
      });
      expect(await cli.exec("a", "stat", "-c", "%a", "/tmp/run.sh")).toBe(mode.toString(8));
    }
    await cli.exec("a", "chmod", "4750", "/tmp/run.sh");
    await ramet("sandbox", "cp", "a:/tmp/run.sh", join(home, "back.sh"));
    expect((await stat(join(home, "back.sh"))).mode & 0o7777).toBe(0o750);
  });

  it("says which file does not exist, here or in the sandbox", async () => {
    const from = await ramet("sandbox", "cp", "a:/missing", "/tmp/x");
    expect(from).toMatchObject({ exitCode: 3 });
    expect(from.stderr).toContain("Cannot read /missing in the sandbox: it does not exist\n");
    expect((await ramet("sandbox", "cp", "/missing", "a:/x")).stderr).toContain(
      "Cannot read /missing: it does not exist\n",
    );
  });

  it("writes nothing outside of the target, whatever the sandbox sends", async () => {
    const outside = join(home, "outside");
    await mkdir(outside);
    await cli.exec(
      "a",
      "sh",
      "-c",
      `mkdir -p /evil && ln -s ${outside} /evil/escape && mkfifo /evil/fifo && echo x > /evil/fine`,
    );
    // A tar that sends a file through the link that it sent before.
    const fake = `#!/usr/bin/python3
import io, sys, tarfile
out = tarfile.open(fileobj=sys.stdout.buffer, mode="w|")
def add(name, kind, link="", data=b""):
    info = tarfile.TarInfo(name); info.type = kind; info.linkname = link; info.size = len(data)
    out.addfile(info, io.BytesIO(data))
add("escape", tarfile.SYMTYPE, "${outside}")
add("escape/through-link", tarfile.REGTYPE, data=b"x")
add("../by-name", tarfile.REGTYPE, data=b"x")
add("device", tarfile.CHRTYPE)
add("fine", tarfile.REGTYPE, data=b"x")
out.close()
`;
    await writeFile(join(home, "fake-tar"), fake);
    await ramet("sandbox", "cp", join(home, "fake-tar"), "a:/usr/local/bin/tar");
    await cli.exec("a", "chmod", "755", "/usr/local/bin/tar");
    const target = join(home, "received");
    await ramet("sandbox", "cp", "a:/evil", target);
    await cli.exec("a", "rm", "/usr/local/bin/tar");
    expect(await readFile(join(target, "fine"), "utf8")).toBe("x");
    const { readdir } = await import("node:fs/promises");
    expect(await readdir(outside)).toEqual([]);
    expect(await readdir(home)).not.toContain("by-name");
    expect(await readdir(target)).not.toContain("device");
  });

  it("forwards HTTP and upgrades to a port through the gateway, until Ctrl-C", async () => {
    const server = `
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.headers.get("Upgrade"):
            self.send_response(101); self.send_header("Upgrade", "echo"); self.send_header("Connection", "Upgrade"); self.end_headers()
            self.wfile.write(b"up:" + self.rfile.read(4)); self.close_connection = True
        else:
            self.send_response(200); self.send_header("Content-Length", "2"); self.end_headers(); self.wfile.write(b"ok")
http.server.HTTPServer(("0.0.0.0", 8000), Handler).serve_forever()`;
    await writeFile(join(home, "server.py"), server);
    await ramet("sandbox", "cp", join(home, "server.py"), "a:/server.py");
    await cli.exec("a", "sh", "-c", "nohup python3 /server.py >/dev/null 2>&1 &");
    const { io, ended } = cli.inProcess(["sandbox", "port-forward", "a", "0:8000"]);
    await expect.poll(() => io.written("stdout"), { timeout: 30_000 }).toMatch(/^127\.0\.0\.1:\d+ -> a:8000\n$/);
    const address = io.written("stdout").split(" ")[0] ?? "";
    const answer = async () => (await fetch(`http://${address}/`)).text();
    // Python imports the server's modules before it listens.
    await expect.poll(answer, { timeout: 30_000 }).toBe("ok");
    const [, port] = address.split(":");
    const upgraded = request({ port, headers: { connection: "Upgrade", upgrade: "echo" } });
    upgraded.end();
    const [, socket] = (await once(upgraded, "upgrade")) as [unknown, NodeJS.ReadWriteStream];
    socket.write("ping");
    const [data] = (await once(socket, "data")) as [Buffer];
    expect(data.toString()).toBe("up:ping");
    io.interrupt();
    expect(await ended).toMatchObject({ exitCode: 130, stderr: "" });
  });

  it("removes what has failed, and nothing else", async () => {
    const failed = await ramet("sandbox", "create", "--from", "no-such-checkpoint", "--name", "f", "--timeout", "60s");
    expect(failed.stderr).toContain("Remove it with: ramet sandbox rm f -n default\n");
    expect(await ramet("sandbox", "rm", "--failed")).toMatchObject({ exitCode: 0, stdout: "sandbox f removed\n" });
    expect((await ramet("sandbox", "ls", "-o", "name")).stdout.split("\n")).toContain("a");
    expect((await ramet("sandbox", "rm")).exitCode).toBe(2);
    // An empty variable names nothing, and above all not every sandbox.
    expect(await ramet("sandbox", "rm", "")).toMatchObject({ exitCode: 2, stdout: "" });
    expect((await ramet("sandbox", "create", "--from", "")).stderr).toContain("--from is empty\n");
    expect((await ramet("sandbox", "ls", "-o", "name")).stdout.split("\n")).toContain("a");
    expect((await ramet("sandbox", "rm", "a", "--failed")).exitCode).toBe(2);
  });

  it("lists local clusters, and rejects a namespace that does not exist", async () => {
    expect((await ramet("local", "ls")).stdout).toMatch(/^NAME +PHASE +KUBECONFIG\ndefault +up +/);
    expect(await ramet("sandbox", "ls", "-n", "nowhere")).toMatchObject({ exitCode: 3 });
    const made = await ramet("sandbox", "create", "--template", "python", "-n", "nowhere");
    expect(made).toMatchObject({ exitCode: 3 });
    expect(made.stderr).toContain("The namespace nowhere does not exist\nCorrect --namespace");
  });
});
