import { mkdir, readdir, readFile } from "node:fs/promises";
import { createConnection } from "node:net";
import { once } from "node:events";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { guestClientPort, type CheckpointResult } from "../../../src/api/cell.ts";
import type { Contents } from "../../../src/api/contents.ts";
import { GuestClient } from "../../../src/cell/client/guest-client.ts";
import { directoryStore } from "../../../src/store/directory/store.ts";
import { CellRig, type RunningCell } from "../../setup/cell-rig.ts";
import { pythonRootPath } from "../../setup/python-image.ts";

/** Answers each request with how often it was asked: what only its memory knows. */
const counter = `
import http.server, socketserver
count = 0
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        global count
        count += 1
        body = str(count).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_): pass
class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
Server(("0.0.0.0", 8000), Handler).serve_forever()
`;
const container = { command: ["python3", "-c", counter], ports: [8000] };
const both: Contents = ["memory", "filesystem"];

describe("a cell on real gVisor", () => {
  let rig: CellRig;
  let store: ReturnType<typeof directoryStore>;
  let source: RunningCell;

  beforeAll(async () => {
    rig = await CellRig.open(await pythonRootPath());
    const root = join(rig.directory, "store");
    await mkdir(root);
    store = directoryStore({ root });
    source = await rig.startCell({ name: "source", start: "boot", container });
    await rig.client.boot(source.address, { identity: source.identity });
  });
  afterAll(() => rig.close());

  function guestOf(cell: RunningCell): GuestClient {
    return new GuestClient({
      dial: () => rig.client.dial(cell.address, guestClientPort),
      accessToken: cell.identity.accessToken,
    });
  }

  async function output(cell: RunningCell, command: string): Promise<string> {
    let text = "";
    for await (const event of guestOf(cell).startProcess({ command: "sh", args: ["-c", command] })) {
      if (event.type === "data") text += event.data.toString();
    }
    return text.trim();
  }

  async function checkpoint(
    cell: RunningCell,
    checkpointId: string,
    contents = both,
    keepRunning = true,
  ): Promise<CheckpointResult> {
    const grant = await store.grantWrite({ namespace: "test", checkpointId, ttlMilliseconds: 60_000 });
    return rig.client.checkpoint(cell.address, { grant, contents, keepRunning });
  }

  async function clone(
    name: string,
    checkpointId: string,
    manifestDigest: string,
    contents = both,
  ): Promise<RunningCell> {
    const cell = await rig.startCell({ name, start: "wait", container });
    const grant = await store.grantRead({ namespace: "test", checkpointId, manifestDigest, ttlMilliseconds: 60_000 });
    await rig.client.restore(cell.address, { identity: cell.identity, grant, contents });
    return cell;
  }

  async function count(cell: RunningCell): Promise<number> {
    for (;;) {
      const answer = await fetch(`http://${cell.address.ip}:8000`).catch(() => undefined);
      if (answer !== undefined) return Number(await answer.text());
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }

  test("a memory clone goes on from the cut, with an identity of its own, and so does the source", async () => {
    const before = await count(source);
    await output(source, "echo kept > /my-file");
    const { manifestDigest } = await checkpoint(source, "memory-1");
    expect(await count(source)).toBe(before + 1);
    await output(source, "echo changed > /my-file");
    const first = await clone("first", "memory-1", manifestDigest);
    const second = await clone("second", "memory-1", manifestDigest);
    expect([await count(first), await count(second), await count(source)]).toEqual([
      before + 1,
      before + 1,
      before + 2,
    ]);
    expect(await output(first, "cat /my-file; hostname")).toBe("kept\nfirst");
    expect(await output(second, "hostname")).toBe("second");
    const stranger = new GuestClient({
      dial: () => rig.client.dial(second.address, guestClientPort),
      accessToken: first.identity.accessToken,
    });
    await expect(stranger.list("/")).rejects.toMatchObject({ code: "Unauthorized" });
  });

  test("a running sandbox takes another environment: new commands have it, and what runs goes on", async () => {
    const before = await count(source);
    const { generation } = await rig.client.state(source.address);
    const identity = { ...source.identity, environment: { CLAIMED: "yes" } };
    await rig.client.identity(source.address, { identity });
    expect(await output(source, "echo $CLAIMED")).toBe("yes");
    expect(await count(source)).toBe(before + 1);
    const again = await Promise.all([1, 2].map(() => rig.client.identity(source.address, { identity })));
    expect(again.map((state) => state.generation)).toEqual([generation + 1, generation + 1]);
    expect(await output(source, "cat /run/ramet/generation")).toBe(`${generation + 1}`);
    await rig.client.identity(source.address, { identity: source.identity });
    expect(await output(source, "echo $CLAIMED")).toBe("");
    const waiting = await rig.startCell({ name: "unborn", start: "wait", container });
    await expect(rig.client.identity(waiting.address, { identity: waiting.identity })).rejects.toMatchObject({
      code: "SandboxNotReady",
    });
  });

  test("a filesystem clone boots anew on the files, deletions included", async () => {
    await output(source, "echo data > /data; rm -f /etc/issue");
    const asked = await count(source);
    const { manifestDigest } = await checkpoint(source, "files-1", ["filesystem"]);
    const fresh = await clone("fresh", "files-1", manifestDigest, ["filesystem"]);
    expect(await output(fresh, "cat /data; ls /etc/issue 2>/dev/null")).toBe("data");
    expect(await count(fresh)).toBe(1);
    expect(await count(source)).toBe(asked + 1);
  });

  test("a connection that is open at the cut goes on in the source, and the clone takes new ones", async () => {
    const socket = createConnection(8000, source.address.ip);
    const ask = async (): Promise<string> => {
      socket.write("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
      const [chunk] = (await once(socket, "data")) as [Buffer];
      return chunk.toString();
    };
    expect(await ask()).toContain("200");
    const { manifestDigest } = await checkpoint(source, "connected-1");
    expect(await ask()).toContain("200");
    socket.destroy();
    const cell = await clone("connected", "connected-1", manifestDigest);
    expect(await count(cell)).toBeGreaterThan(0);
  });

  test("a command that runs at the cut runs on in the clone, and its output can be read there", async () => {
    const guest = guestOf(source);
    const started = guest.startProcess({
      command: "sh",
      args: ["-c", "i=0; while :; do i=$((i+1)); echo line $i; sleep 0.05; done"],
      tag: "ticker",
    });
    await started.next();
    const { manifestDigest } = await checkpoint(source, "ticking-1");
    const cell = await clone("ticking", "ticking-1", manifestDigest);
    let text = "";
    for await (const event of guestOf(cell).connect({ tag: "ticker" })) {
      if (event.type === "data") text += event.data.toString();
      if (text.split("\n").length > 20) break;
    }
    expect(text).toContain("line 1\nline 2\n");
    await started.return(undefined);
  });

  test("the same checkpoint asked for twice is taken once; another one meanwhile is refused", async () => {
    const [first, second, other] = await Promise.allSettled([
      checkpoint(source, "twice-1"),
      checkpoint(source, "twice-1"),
      checkpoint(source, "other-1"),
    ]);
    expect(second).toEqual(first);
    // Which of them the cell hears first, nobody can say.
    const [winner, loser] = first.status === "fulfilled" ? [first, other] : [other, first];
    expect(winner.status).toBe("fulfilled");
    expect(loser).toMatchObject({ status: "rejected", reason: { code: "Conflict" } });
  });

  test("without keepRunning the source stands still until it is stopped", async () => {
    const cell = await rig.startCell({ name: "ending", start: "boot", container });
    await rig.client.boot(cell.address, { identity: cell.identity });
    await count(cell);
    const { manifestDigest } = await checkpoint(cell, "ending-1", both, false);
    expect(await rig.client.state(cell.address)).toMatchObject({ phase: "paused", ready: false });
    const exited = once(cell.process, "exit");
    await rig.client.stop(cell.address, "its checkpoint was taken");
    expect(await exited).toEqual([0, null]);
    expect(await count(await clone("ended", "ending-1", manifestDigest))).toBe(2);
  });

  test("a checkpoint that cannot be written leaves the source as it was and says so", async () => {
    const grant = await store.grantWrite({ namespace: "test", checkpointId: "nowhere-1", ttlMilliseconds: 60_000 });
    const asked = await count(source);
    const lost = { ...grant, path: `${grant.path}-missing` };
    await expect(
      rig.client.checkpoint(source.address, { grant: lost, contents: both, keepRunning: false }),
    ).rejects.toThrow();
    expect(await rig.client.state(source.address)).toMatchObject({ phase: "running", ready: true });
    expect(await count(source)).toBe(asked + 1);
  });

  test("a restore of what is not there fails the clone before anybody can reach it", async () => {
    const cell = await rig.startCell({ name: "lost", start: "wait", container });
    const grant = await store.grantRead({
      namespace: "test",
      checkpointId: "never-taken",
      manifestDigest: `sha256:${"1".repeat(64)}`,
      ttlMilliseconds: 60_000,
    });
    const exited = once(cell.process, "exit");
    await expect(
      rig.client.restore(cell.address, { identity: cell.identity, grant, contents: both }),
    ).rejects.toMatchObject({
      code: "CheckpointLost",
    });
    expect(await exited).toEqual([70, null]);
  });

  test("a call without the controller's token is refused", async () => {
    const url = `http://${source.address.ip}:49980/v1/state`;
    expect((await fetch(url)).status).toBe(401);
    expect((await fetch(url, { headers: { authorization: "Bearer x.y.z" } })).status).toBe(401);
    const otherUid = rig.client.state({ ...source.address, sandboxUid: "another" });
    await expect(otherUid).rejects.toMatchObject({ code: "Unauthorized" });
  });

  test("the end of the entrypoint is the end of the cell, with its exit code", async () => {
    const cell = await rig.startCell({
      name: "short",
      start: "boot",
      container: { command: ["sh", "-c", "sleep 1; exit 3"] },
    });
    const exited = once(cell.process, "exit");
    await rig.client.boot(cell.address, { identity: cell.identity });
    expect(await exited).toEqual([3, null]);
  });

  test("an entrypoint is asked to end before it is ended", async () => {
    const command = ["sh", "-c", "trap 'echo bye; exit 7' TERM; echo up; while :; do sleep 0.05; done"];
    const cell = await rig.startCell({ name: "polite", start: "boot", container: { command } });
    await rig.client.boot(cell.address, { identity: cell.identity });
    await expect.poll(() => printed(cell), { interval: 20 }).toContain("up");
    const exited = once(cell.process, "exit");
    cell.process.kill("SIGTERM");
    expect(await exited).toEqual([7, null]);
    expect(await printed(cell)).toContain("bye");
  });

  test("of what was asked to end no checkpoint is taken: its clones would end at once", async () => {
    const command = ["sh", "-c", "trap 'echo bye; sleep 5; exit 7' TERM; echo up; while :; do sleep 0.05; done"];
    const cell = await rig.startCell({ name: "ending", start: "boot", container: { command } });
    await rig.client.boot(cell.address, { identity: cell.identity });
    await expect.poll(() => printed(cell), { interval: 20 }).toContain("up");
    const exited = once(cell.process, "exit");
    cell.process.kill("SIGTERM");
    await expect.poll(() => printed(cell), { interval: 20 }).toContain("bye");
    await expect(checkpoint(cell, "of-the-end")).rejects.toMatchObject({ code: "SandboxNotReady" });
    expect(await exited).toEqual([7, null]);
  });

  test("a cell that is killed leaves no process behind", async () => {
    const cell = await rig.startCell({ name: "killed", start: "boot", container });
    await rig.client.boot(cell.address, { identity: cell.identity });
    expect(await processesOf(cell)).not.toEqual([]);
    const exited = once(cell.process, "exit");
    cell.process.kill("SIGKILL");
    await exited;
    await expect.poll(() => processesOf(cell), { interval: 20 }).toEqual([]);
  });
});

/** What the entrypoint printed so far. */
function printed({ directory }: RunningCell): Promise<string> {
  return readFile(join(directory, "log", "0.log"), "utf8");
}

/** Command lines that name the cell's folder. */
async function processesOf({ directory }: RunningCell): Promise<string[]> {
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
  const lines = await Promise.all(pids.map((pid) => readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "")));
  return lines.filter((line) => line.includes(directory));
}
