import { Sandbox, type SandboxInfo, type SnapshotInfo } from "e2b";
import { request } from "undici";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { ClientWorld } from "./client-world.ts";

/**
 * Every code block of E2B's documentation page "Sandbox persistence" in JavaScript, in the order of the page, over a real local
 * cluster. The blocks configure nothing, so the variables of the environment do. The blocks that import `@e2b/code-interpreter` use
 * nothing that `e2b` does not have.
 */
let world: ClientWorld;

beforeAll(async () => {
  world = await ClientWorld.shared("seed-002");
  for (const [name, value] of Object.entries(await world.environment())) vi.stubEnv(name, value);
});
afterAll(async () => {
  vi.unstubAllEnvs();
  await world.close();
});

const stateOf = async (sandbox: Sandbox) => (await sandbox.getInfo()).state;

describe("pause and resume", () => {
  it("changes the state of a sandbox", async () => {
    const sandbox = await Sandbox.create();
    expect(await stateOf(sandbox)).toBe("running");
    await sandbox.pause();
    expect(await stateOf(sandbox)).toBe("paused");
    await sandbox.connect();
    expect(await stateOf(sandbox)).toBe("running");
    await sandbox.kill();
    await expect(sandbox.getInfo()).rejects.toThrow("not found");
  });

  it("pauses a sandbox, and resumes it as it was", async () => {
    const sbx = await Sandbox.create();
    await sbx.commands.run("sleep 1000", { background: true });
    await sbx.files.write("kept", "file");
    await sbx.pause();
    expect(await stateOf(sbx)).toBe("paused");
    const sameSbx = await sbx.connect();
    expect(sameSbx.sandboxId).toBe(sbx.sandboxId);
    expect(await sameSbx.files.read("kept")).toBe("file");
    expect((await sameSbx.commands.list()).map(({ args }) => args.join(" ")).join()).toContain("sleep 1000");
    await sbx.kill();
  });

  it("lists the paused sandboxes", async () => {
    const [paused, running] = [await Sandbox.create(), await Sandbox.create()];
    await paused.pause();
    const paginator = Sandbox.list({ query: { state: ["paused"] } });
    const sandboxes: SandboxInfo[] = await paginator.nextItems();
    while (paginator.hasNext) {
      const items = await paginator.nextItems();
      sandboxes.push(...items);
    }
    expect(sandboxes.map(({ sandboxId }) => sandboxId)).toEqual([paused.sandboxId]);
    for (const each of [paused, running]) await each.kill();
  });

  it("removes a paused sandbox", async () => {
    const sbx = await Sandbox.create();
    await sbx.pause();
    await sbx.kill();
    await expect.poll(() => Sandbox.kill(sbx.sandboxId)).toBe(false);
  });

  it("sets the time when a client connects", async () => {
    const { sandboxId } = await Sandbox.create({ timeoutMs: 10_000 });
    const sbx = await Sandbox.connect(sandboxId, { timeoutMs: 60 * 1000 });
    const left = (await sbx.getInfo()).endAt.getTime() - Date.now();
    expect(left).toBeGreaterThan(10_000);
    expect(left).toBeLessThanOrEqual(60_000);
    await sbx.kill();
  });
});

describe("auto-pause and auto-resume", () => {
  const lifecycle = { onTimeout: "pause", autoResume: true } as const;

  it("is configured when the sandbox is created", async () => {
    const sandbox = await Sandbox.create({ timeoutMs: 10 * 60 * 1000, lifecycle });
    expect((await sandbox.getInfo()).lifecycle).toEqual(lifecycle);
    await sandbox.kill();
    const other = await Sandbox.create();
    expect((await other.getInfo()).lifecycle).toEqual({ onTimeout: "kill", autoResume: false });
    await other.kill();
  });

  it("reads a file of a paused sandbox", async () => {
    const sandbox = await Sandbox.create({ timeoutMs: 10 * 60 * 1000, lifecycle });
    await sandbox.files.write("/home/user/hello.txt", "hello from a paused sandbox");
    await sandbox.pause();
    const content = await sandbox.files.read("/home/user/hello.txt");
    expect(content).toBe("hello from a paused sandbox");
    expect((await sandbox.getInfo()).state).toBe("running");
    await sandbox.kill();
  });

  it("serves a web server that was paused", async () => {
    const sandbox = await Sandbox.create({ timeoutMs: 10 * 60 * 1000, lifecycle });
    // The page installs Flask with pip, which needs the internet. This stand-in has what the page's program uses.
    await sandbox.files.write("/home/user/flask.py", flask);
    await sandbox.files.write(
      "/home/user/app.py",
      [
        "from flask import Flask",
        "app = Flask(__name__)",
        '@app.route("/")',
        "def hello():",
        '    return "Hello, World!"',
        'app.run(host="0.0.0.0", port=3000)',
        "",
      ].join("\n"),
    );
    await sandbox.commands.run("python3 -u /home/user/app.py > /home/user/flask.log 2>&1", { background: true });
    const previewHost = sandbox.getHost(3000);
    const open = async () => {
      const { statusCode, body } = await request(process.env["E2B_SANDBOX_URL"] ?? "", {
        headers: { host: previewHost },
      });
      return [statusCode, await body.text()];
    };
    await expect.poll(open).toEqual([200, "Hello, World!"]);
    expect((await sandbox.getInfo()).state).toBe("running");
    await sandbox.pause();
    expect((await sandbox.getInfo()).state).toBe("paused");
    expect(await open()).toEqual([200, "Hello, World!"]);
    await sandbox.kill();
  });

  it("runs the tasks of an agent in one sandbox", async () => {
    const sandbox = await Sandbox.create({ timeoutMs: 5 * 60 * 1000, lifecycle });
    const runToolTask = async (command: string) => (await sandbox.commands.run(command)).stdout;
    for (const _ of ["running", "paused"]) {
      // The page calls it `python`, which Debian's image on this cluster does not have.
      expect(await runToolTask('python3 -c "print(2 + 2)"')).toBe("4\n");
      await sandbox.pause();
    }
    await sandbox.kill();
  });

  it("keeps one sandbox for each user", async () => {
    const userSandboxes = new Map<string, Sandbox>();
    const getSandbox = async (userId: string): Promise<Sandbox> => {
      const known = userSandboxes.get(userId);
      const sandbox = known ?? (await Sandbox.create({ timeoutMs: 5 * 60 * 1000, lifecycle }));
      userSandboxes.set(userId, sandbox);
      return sandbox;
    };
    const sandbox = await getSandbox("user-123");
    const hello = 'echo "Hello from your sandbox"';
    expect((await sandbox.commands.run(hello)).stdout).toBe("Hello from your sandbox\n");
    await sandbox.pause();
    expect((await (await getSandbox("user-123")).commands.run(hello)).stdout).toBe("Hello from your sandbox\n");
    // "If you call .kill(), the sandbox is permanently deleted and cannot be resumed."
    await sandbox.kill();
    await expect(sandbox.commands.run(hello)).rejects.toThrow();
    await expect(sandbox.connect()).rejects.toThrow("not found");
  });
});

describe("snapshots", () => {
  it("are created from a running sandbox, and start others", async () => {
    const sandbox = await Sandbox.create();
    await sandbox.files.write("state", "captured");
    const snapshot = await sandbox.createSnapshot();
    expect(snapshot.snapshotId).not.toBe("");
    const { sandboxId } = sandbox;
    const other = await Sandbox.createSnapshot(sandboxId);
    expect(other.snapshotId).not.toBe(snapshot.snapshotId);
    const newSandbox = await Sandbox.create(snapshot.snapshotId);
    expect(await newSandbox.files.read("state")).toBe("captured");
    expect(await stateOf(sandbox)).toBe("running");

    const paginator = Sandbox.listSnapshots();
    const snapshots: SnapshotInfo[] = [];
    while (paginator.hasNext) {
      const items = await paginator.nextItems();
      snapshots.push(...items);
    }
    const ids = [snapshot.snapshotId, other.snapshotId];
    expect(snapshots.map(({ snapshotId }) => snapshotId)).toEqual(expect.arrayContaining(ids));
    const ofSandbox = await Sandbox.listSnapshots({ sandboxId }).nextItems();
    expect(ofSandbox.map(({ snapshotId }) => snapshotId).toSorted()).toEqual(ids.toSorted());

    expect(await Sandbox.deleteSnapshot(snapshot.snapshotId)).toBe(true);
    expect(await Sandbox.deleteSnapshot(snapshot.snapshotId)).toBe(false);
    for (const each of [sandbox, newSandbox]) await each.kill();
  });
});

const flask = `
import http.server

class Flask:
    def __init__(self, name):
        self.views = {}

    def route(self, path):
        return lambda view: self.views.setdefault(path, view)

    def run(self, host, port):
        views = self.views

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                body = views[self.path]().encode()
                self.send_response(200)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        http.server.ThreadingHTTPServer((host, port), Handler).serve_forever()
`;
