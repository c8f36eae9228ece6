import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { KubeClient } from "../../src/kube/kube-client.ts";
import { connectionFromKubeconfig } from "../../src/kube/kubeconfig.ts";
import { OrdinaryUser } from "./ordinary-user-world.ts";

/** Answers each request with how many there were, and prints it. */
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

function count(sandbox: string): Promise<string> {
  return user.say("sandbox", "exec", sandbox, "--", "python3", "-c", ask);
}

describe("ramet local as an ordinary user", () => {
  it("starts a cluster in the user's own folder", async () => {
    expect(await user.say("local", "up", "--name", "ordinary")).toContain("KUBECONFIG=");
    expect(await user.say("local", "status", "--name", "ordinary")).toContain("cluster ordinary: up");
  });

  it("runs a sandbox from the template python, and commands in it as its root", async () => {
    expect(await user.say("sandbox", "create", "--template", "python", "--name", "plain")).toBe("plain");
    expect(await user.say("sandbox", "exec", "plain", "--", "python3", "-c", "print(1)")).toBe("1");
    expect(await user.say("sandbox", "exec", "plain", "--", "id", "-u")).toBe("0");
  });

  it("clones a sandbox with its memory: the counter goes on from where it was, in both", async () => {
    await createSandbox("counter", { command: ["python3", "-u", "-c", counter] });
    await expect.poll(() => count("counter").catch(() => ""), { timeout: 20_000 }).toBe("1");
    expect(await count("counter")).toBe("2");
    const id = await user.say("checkpoint", "create", "counter", "--contents", "memory,filesystem");
    expect(await count("counter")).toBe("3");
    expect(await user.say("sandbox", "create", "--from", id, "--name", "twin")).toBe("twin");
    expect(await count("twin")).toBe("3");
    expect(await count("counter")).toBe("4");
    expect(await user.say("sandbox", "logs", "counter")).toBe("serving\ncount 1\ncount 2\ncount 3\ncount 4");
  });

  it("clones the files alone", async () => {
    await user.say("sandbox", "exec", "plain", "--", "sh", "-c", "echo kept > /my-file; chown 1000 /my-file");
    const id = await user.say("checkpoint", "create", "plain", "--contents", "filesystem");
    await user.say("sandbox", "create", "--from", id, "--name", "files");
    expect(await user.say("sandbox", "exec", "files", "--", "cat", "/my-file")).toBe("kept");
    expect(await user.say("sandbox", "exec", "files", "--", "stat", "-c", "%u", "/my-file")).toBe("1000");
  });

  it("goes down and leaves nothing that runs, and with --purge nothing at all", async () => {
    expect((await user.processes()).length).toBeGreaterThan(10);
    expect((await user.ramet("local", "down", "--name", "ordinary", "--purge")).code).toBe(0);
    expect(await user.processes()).toEqual([]);
    expect(await readdir(join(user.dataFolder, "ramet"))).toEqual([]);
    expect(await readdir(join(user.folder, "tmp"))).toEqual([]);
  });
});
