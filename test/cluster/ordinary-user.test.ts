import { chmod, mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { KubeClient } from "../../src/kube/kube-client.ts";
import { connectionFromKubeconfig } from "../../src/kube/kubeconfig.ts";
import { coreResources } from "../../src/kube/resource-ref.ts";
import { OrdinaryUser } from "./ordinary-user-world.ts";

/** Responds to each request with the number of requests so far, and prints it. */
const counter = `
import http.server
count = 0
class Handler(http.server.BaseHTTPRequestHandler):
  def do_GET(self):
    global count
    count += 1
    print("count", count)
    self.send_response(200); self.end_headers(); self.wfile.write(str(count).encode())
  def log_message(self, *_): pass
print("serving")
http.server.HTTPServer(("", 8000), Handler).serve_forever()
`;
const ask = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:8000').read().decode())";

/** Each poll starts a command. */
const patient = { timeout: 60_000 };

let user: OrdinaryUser;
beforeAll(async () => {
  user = await OrdinaryUser.create();
  await user.addPythonImage();
}, 400_000);
afterAll(() => user.remove());

async function createSandbox(name: string, container: Record<string, unknown>, pod: Record<string, unknown> = {}) {
  const client = new KubeClient(await connectionFromKubeconfig({ path: user.kubeconfig }));
  const kind = { group: "agents.kruise.io", version: "v1alpha1", plural: "sandboxes", kind: "Sandbox" };
  const spec = { template: { spec: { ...pod, containers: [{ name: "main", image: "python", ...container }] } } };
  const manifest = {
    apiVersion: "agents.kruise.io/v1alpha1",
    kind: "Sandbox",
    metadata: { name, namespace: "default" },
  };
  await client.resource({ ...kind, namespaced: true }).create({ ...manifest, spec });
  await client.close();
}

async function createClaim(name: string, source: object = {}) {
  const client = new KubeClient(await connectionFromKubeconfig({ path: user.kubeconfig }));
  await client.resource(coreResources.persistentVolumeClaims).create({
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata: { name, namespace: "default" },
    spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1Gi" } }, ...source },
  });
  await client.close();
}

function count(sandbox: string): Promise<string> {
  return user.output("sandbox", "exec", sandbox, "--", "python3", "-c", ask);
}

describe("ramet local as an ordinary user", () => {
  it("starts a cluster in the user's own directory", async () => {
    expect(await user.output("local", "up", "--name", "ordinary")).toContain("KUBECONFIG=");
    expect(await user.output("local", "status", "--name", "ordinary")).toContain("cluster ordinary: up");
  });

  it("runs a sandbox from the template python, and commands in it as its root", async () => {
    expect(await user.output("sandbox", "create", "--template", "python", "--name", "plain")).toBe("plain");
    expect(await user.output("sandbox", "exec", "plain", "--", "python3", "-c", "print(1)")).toBe("1");
    expect(await user.output("sandbox", "exec", "plain", "--", "id", "-u")).toBe("0");
  });

  it("clones a sandbox with its memory, and the counter continues in both", async () => {
    await createSandbox("counter", { command: ["python3", "-u", "-c", counter] });
    await expect.poll(() => count("counter").catch(() => ""), patient).toBe("1");
    expect(await count("counter")).toBe("2");
    const id = await user.output("checkpoint", "create", "counter", "--contents", "memory,filesystem");
    expect(await count("counter")).toBe("3");
    expect(await user.output("sandbox", "create", "--from", id, "--name", "twin")).toBe("twin");
    expect(await count("twin")).toBe("3");
    expect(await count("counter")).toBe("4");
    expect(await user.output("sandbox", "logs", "counter")).toBe("serving\ncount 1\ncount 2\ncount 3\ncount 4");
  });

  it("clones a sandbox with only its files", async () => {
    await user.output("sandbox", "exec", "plain", "--", "sh", "-c", "echo kept > /my-file; chown 1000 /my-file");
    const id = await user.output("checkpoint", "create", "plain", "--contents", "filesystem");
    await user.output("sandbox", "create", "--from", id, "--name", "files");
    expect(await user.output("sandbox", "exec", "files", "--", "cat", "/my-file")).toBe("kept");
    expect(await user.output("sandbox", "exec", "files", "--", "stat", "-c", "%u", "/my-file")).toBe("1000");
  });

  it("lets any user in the sandbox write to a volume, and clones it with the memory", async () => {
    const script = "echo mine > /scratch/f && exec sleep 3600 3>> /scratch/open";
    const pod = { volumes: [{ name: "scratch", emptyDir: {} }] };
    await createSandbox(
      "volume",
      {
        command: ["sh", "-c", script],
        securityContext: { runAsUser: 1000, runAsGroup: 1000 },
        volumeMounts: [{ name: "scratch", mountPath: "/scratch" }],
      },
      pod,
    );
    const owner = ["--", "stat", "-c", "%n %u:%g", "/scratch/f"];
    const written = () => user.output("sandbox", "exec", "volume", ...owner).catch(() => "");
    await expect.poll(written, patient).toBe("/scratch/f 1000:1000");
    const id = await user.output("checkpoint", "create", "volume");
    await user.output("sandbox", "create", "--from", id, "--name", "volume-clone");
    expect(await user.output("sandbox", "exec", "volume-clone", "--", "cat", "/scratch/f")).toBe("mine");
  });

  it("provisions a claim, and clones it with the files of a sandbox", async () => {
    const mounting = (claimName: string) => ({ volumes: [{ name: "data", persistentVolumeClaim: { claimName } }] });
    const container = { volumeMounts: [{ name: "data", mountPath: "/data" }] };
    await createClaim("work");
    await createSandbox(
      "writer",
      { ...container, command: ["sh", "-c", "echo mine > /data/f && sleep 3600"] },
      mounting("work"),
    );
    const read = (name: string) => user.output("sandbox", "exec", name, "--", "cat", "/data/f").catch(() => "");
    await expect.poll(() => read("writer"), patient).toBe("mine");
    await createClaim("clone", { dataSource: { kind: "PersistentVolumeClaim", name: "work" } });
    await createSandbox("reader", { ...container, command: ["sleep", "3600"] }, mounting("clone"));
    await expect.poll(() => read("reader"), patient).toBe("mine");
  });

  it("reports why a sandbox that declares a port below 1024 fails", async ({ skip }) => {
    const first = await readFile("/proc/sys/net/ipv4/ip_unprivileged_port_start", "utf8");
    if (Number(first) <= 80) skip();
    await createSandbox("low", { command: ["sleep", "3600"], ports: [{ containerPort: 80 }] });
    const listed = () => user.output("sandbox", "ls");
    await expect.poll(listed, patient).toMatch(/^low +Failed .*:80 failed: permission denied/m);
  });

  it("stops all processes of the cluster, and removes all its files with --purge", async () => {
    expect((await user.processes()).length).toBeGreaterThan(10);
    expect((await user.ramet("local", "down", "--name", "ordinary", "--purge")).code).toBe(0);
    expect(await user.processes()).toEqual([]);
    expect(await readdir(join(user.dataDirectory, "ramet"))).toEqual([]);
    expect(await readdir(join(user.directory, "tmp"))).toEqual([]);
  });
});

describe("missing permissions of an ordinary user", () => {
  it("are reported for an unreadable file of an image, with a workaround", async () => {
    const directory = join(user.directory, "foreign");
    await mkdir(join(directory, "etc"), { recursive: true });
    await writeFile(join(directory, "etc", "shadow"), "secret");
    await chmod(join(directory, "etc", "shadow"), 0o000);
    const { code, stderr } = await user.ramet("local", "image", "add", "foreign", directory);
    expect(code).toBe(2);
    expect(stderr).toMatch(/\.\/etc\/shadow: Cannot open: Permission denied.*create a tar of it as root/s);
  });

  it("are reported with the sysctl that disables user namespaces", async ({ skip }) => {
    const none = "--inh-caps=-all --ambient-caps=-all --bounding-set=-all";
    const script = `echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv ${none} "$@"`;
    const refused = ["unshare", "--user", "--map-current-user", "--keep-caps", "--", "sh", "-c", script, "sh"];
    if ((await user.run([...refused, "true"])).code !== 0)
      skip("unshare cannot disable user namespaces on this machine");
    const { code, stderr } = await user.run([...refused, ...user.command("local", "up", "--name", "refused")]);
    expect(code).not.toBe(0);
    expect(stderr).toContain("because of the sysctl user.max_user_namespaces=0");
    expect(stderr).toContain("As root: sysctl -w user.max_user_namespaces=");
    expect(stderr).toContain("[HostUnsupported]");
    // The check comes first, before the tools that take minutes to build.
    expect(stderr).toContain("ramet-link");
    expect(stderr).not.toMatch(/etcd|kube-apiserver|runsc/);
    expect(await readdir(join(user.dataDirectory, "ramet"))).not.toContain("refused");
  });
});
