import { readdir, readFile } from "node:fs/promises";
import { createConnection } from "node:net";
import { once } from "node:events";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { guestClientPort } from "../../../src/api/wire/cell-api.ts";
import { DirectoryGrant } from "../../../src/api/wire/grant.ts";
import type { Contents } from "../../../src/api/schema/metadata.ts";
import { GuestClient } from "../../../src/cell/client/guest-client.ts";
import { encryptedStore } from "../../../src/store/encryption/encrypted-store.ts";
import type { RunningCell } from "../../setup/cell-rig.ts";
import { both, Cells, namespace } from "../../setup/cells.ts";
import { countAt, counterPort, counterScript } from "../../setup/counter.ts";

const container = { command: ["python3", "-c", counterScript], ports: [counterPort] };

describe("a cell on real gVisor", () => {
  let cells: Cells;
  let source: RunningCell;

  beforeAll(async () => {
    cells = await Cells.open();
    source = await cells.boot({ name: "source", container });
  });
  afterAll(() => cells.close());

  const count = ({ address }: RunningCell): Promise<number> => countAt(address.ip);
  const output = (cell: RunningCell, script: string): Promise<string> => cells.output(cell, script);

  function clone(name: string, checkpointId: string, manifestDigest: string, contents = both): Promise<RunningCell> {
    return cells.clone({ name, container }, { checkpointId, manifestDigest, contents });
  }

  it("continues a memory clone from the capture time with its own identity, and the source too", async () => {
    const before = await count(source);
    await output(source, "echo kept > /my-file");
    const { manifestDigest } = await cells.checkpoint(source, "memory-1");
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
      dial: () => cells.client.dial(second.address, guestClientPort),
      accessToken: first.identity.accessToken,
    });
    await expect(stranger.list("/")).rejects.toMatchObject({ code: "Unauthorized" });
  });

  it("gives a running sandbox another environment, which only new commands get", async () => {
    const before = await count(source);
    const { generation } = await cells.client.state(source.address);
    const identity = { ...source.identity, environment: { CLAIMED: "yes" } };
    await cells.client.identity(source.address, { identity });
    expect(await output(source, "echo $CLAIMED")).toBe("yes");
    expect(await count(source)).toBe(before + 1);
    const again = await Promise.all([1, 2].map(() => cells.client.identity(source.address, { identity })));
    expect(again.map((state) => state.generation)).toEqual([generation + 1, generation + 1]);
    expect(await output(source, "cat /run/ramet/generation")).toBe(`${generation + 1}`);
    await cells.client.identity(source.address, { identity: source.identity });
    expect(await output(source, "echo $CLAIMED")).toBe("");
    const waiting = await cells.rig.startCell({ name: "unborn", start: "wait", container });
    await expect(cells.client.identity(waiting.address, { identity: waiting.identity })).rejects.toMatchObject({
      code: "SandboxNotReady",
    });
  });

  it("boots a filesystem clone on the captured files, including deletions", async () => {
    await output(source, "echo data > /data; rm -f /etc/issue");
    const asked = await count(source);
    const { manifestDigest } = await cells.checkpoint(source, "files-1", { contents: ["filesystem"] });
    const fresh = await clone("fresh", "files-1", manifestDigest, ["filesystem"]);
    expect(await output(fresh, "cat /data; ls /etc/issue 2>/dev/null")).toBe("data");
    expect(await count(fresh)).toBe(1);
    expect(await count(source)).toBe(asked + 1);
  });

  it("keeps an open connection of the source, and accepts new ones in the clone", async () => {
    const socket = createConnection(counterPort, source.address.ip);
    const ask = async (): Promise<string> => {
      socket.write("GET /keep HTTP/1.1\r\nhost: x\r\n\r\n");
      const [chunk] = (await once(socket, "data")) as [Buffer];
      return chunk.toString();
    };
    expect(await ask()).toContain("200");
    const { manifestDigest } = await cells.checkpoint(source, "connected-1");
    expect(await ask()).toContain("200");
    socket.destroy();
    const cell = await clone("connected", "connected-1", manifestDigest);
    expect(await count(cell)).toBeGreaterThan(0);
  });

  it("continues a command in the clone, where its output can be read", async () => {
    const guest = cells.guestOf(source);
    const started = guest.startProcess({
      command: "sh",
      args: ["-c", "i=0; while :; do i=$((i+1)); echo line $i; sleep 0.05; done"],
      tag: "ticker",
    });
    await started.next();
    const { manifestDigest } = await cells.checkpoint(source, "ticking-1");
    const cell = await clone("ticking", "ticking-1", manifestDigest);
    let text = "";
    for await (const event of cells.guestOf(cell).connect({ tag: "ticker" })) {
      if (event.type === "data") text += event.data.toString();
      if (text.split("\n").length > 20) break;
    }
    expect(text).toContain("line 1\nline 2\n");
    await started.return(undefined);
  });

  it("captures a checkpoint once if the call is repeated, and rejects another one meanwhile", async () => {
    const [first, second, other] = await Promise.allSettled([
      cells.checkpoint(source, "twice-1"),
      cells.checkpoint(source, "twice-1"),
      cells.checkpoint(source, "other-1"),
    ]);
    expect(second).toEqual(first);
    // Either request may reach the cell first.
    const [winner, loser] = first.status === "fulfilled" ? [first, other] : [other, first];
    expect(winner.status).toBe("fulfilled");
    expect(loser).toMatchObject({ status: "rejected", reason: { code: "Conflict" } });
  });

  it("keeps the source paused until it is stopped if keepRunning is false", async () => {
    const cell = await cells.boot({ name: "ending", container });
    await count(cell);
    const { manifestDigest } = await cells.checkpoint(cell, "ending-1", { keepRunning: false });
    expect(await cells.client.state(cell.address)).toMatchObject({ phase: "paused", ready: false });
    const exited = once(cell.process, "exit");
    await cells.client.stop(cell.address, "its checkpoint was captured");
    expect(await exited).toEqual([0, null]);
    expect(await count(await clone("ended", "ending-1", manifestDigest))).toBe(2);
  });

  it("keeps the source running if a checkpoint cannot be written, and reports it", async () => {
    const grant = DirectoryGrant.parse(await cells.writeGrant("nowhere-1"));
    const asked = await count(source);
    const lost = { ...grant, path: `${grant.path}-missing` };
    await expect(
      cells.client.checkpoint(source.address, { grant: lost, contents: both, keepRunning: false }),
    ).rejects.toMatchObject({ code: "StoreUnavailable" });
    expect(await cells.client.state(source.address)).toMatchObject({ phase: "running", ready: true });
    expect(await count(source)).toBe(asked + 1);
  });

  it("keeps the source running if a checkpoint is larger than allowed, and publishes nothing", async () => {
    const grant = await cells.writeGrant("large-1");
    const asked = await count(source);
    const request = { grant, contents: both, keepRunning: false, maxBytes: 1000 };
    await expect(cells.client.checkpoint(source.address, request)).rejects.toThrow(
      /it has \d+ bytes, and its namespace may store 1000 more; the sandbox keeps running/,
    );
    expect(await cells.client.state(source.address)).toMatchObject({ phase: "running", ready: true });
    expect(await count(source)).toBe(asked + 1);
    await cells.checkpoint(source, "large-1");
  });

  it("encrypts memory and files, and clones them with the key of a grant", async () => {
    const bytes = Buffer.alloc(32, 7);
    const key = { secret: "keys", key: "k1", bytes };
    const keys = { current: () => Promise.resolve(key), find: () => Promise.resolve(key) };
    const store = encryptedStore(cells.store, keys);
    const marker = "a-secret-of-the-sandbox";
    const asked = await count(source);
    await output(source, `echo ${marker} > /marker`);
    for (const [id, contents] of [
      ["sealed-1", both],
      ["sealed-2", ["filesystem"]],
    ] as [string, Contents][]) {
      const ref = { namespace, checkpointId: id, ttlMilliseconds: 60_000 };
      const write = await store.grantWrite(ref);
      const { manifestDigest } = await cells.client.checkpoint(source.address, {
        grant: write,
        contents,
        keepRunning: true,
      });
      const image = join(cells.rig.directory, "store", namespace, "checkpoints", id, "image");
      for (const file of await readdir(image)) expect((await readFile(join(image, file))).includes(marker)).toBe(false);
      const cell = await cells.rig.startCell({ name: id, start: "wait", container });
      const request = { identity: cell.identity, contents };
      const grant = await store.grantRead({ ...ref, manifestDigest });
      await cells.client.restore(cell.address, { ...request, grant });
      expect(await output(cell, "cat /marker")).toBe(marker);
      if (contents === both) expect(await count(cell)).toBe(asked + 1);
      const without = await cells.rig.startCell({ name: `${id}-without`, start: "wait", container });
      await expect(cells.restore(without, { checkpointId: id, manifestDigest, contents })).rejects.toMatchObject({
        code: "KeyUnavailable",
      });
    }
  });

  it("fails a clone of a missing checkpoint before it can be reached", async () => {
    const cell = await cells.rig.startCell({ name: "lost", start: "wait", container });
    const exited = once(cell.process, "exit");
    const lost = { checkpointId: "never-captured", manifestDigest: `sha256:${"1".repeat(64)}` };
    await expect(cells.restore(cell, lost)).rejects.toMatchObject({ code: "CheckpointLost" });
    expect(await exited).toEqual([70, null]);
  });

  it("rejects a call without the controller's token", async () => {
    const url = `http://${source.address.ip}:49980/v1/state`;
    expect((await fetch(url)).status).toBe(401);
    expect((await fetch(url, { headers: { authorization: "Bearer x.y.z" } })).status).toBe(401);
    const otherUid = cells.client.state({ ...source.address, sandboxUid: "another" });
    await expect(otherUid).rejects.toMatchObject({ code: "Unauthorized" });
  });

  it("exits with the entrypoint's exit code when the entrypoint exits", async () => {
    const cell = await cells.rig.startCell({
      name: "short",
      start: "boot",
      container: { command: ["sh", "-c", "sleep 1; exit 3"] },
    });
    const exited = once(cell.process, "exit");
    await cells.client.boot(cell.address, { identity: cell.identity });
    expect(await exited).toEqual([3, null]);
  });

  it("sends SIGTERM to the entrypoint before it kills it", async () => {
    const command = ["sh", "-c", "trap 'echo bye; exit 7' TERM; echo up; while :; do sleep 0.05; done"];
    const cell = await cells.boot({ name: "polite", container: { command } });
    await expect.poll(() => printed(cell), { interval: 20 }).toContain("up");
    const exited = once(cell.process, "exit");
    cell.process.kill("SIGTERM");
    expect(await exited).toEqual([7, null]);
    expect(await printed(cell)).toContain("bye");
  });

  it("rejects a checkpoint of a terminating sandbox, whose clones would exit", async () => {
    const command = ["sh", "-c", "trap 'echo bye; sleep 5; exit 7' TERM; echo up; while :; do sleep 0.05; done"];
    const cell = await cells.boot({ name: "ending", container: { command } });
    await expect.poll(() => printed(cell), { interval: 20 }).toContain("up");
    const exited = once(cell.process, "exit");
    cell.process.kill("SIGTERM");
    await expect.poll(() => printed(cell), { interval: 20 }).toContain("bye");
    await expect(cells.checkpoint(cell, "of-the-end")).rejects.toMatchObject({ code: "SandboxNotReady" });
    expect(await exited).toEqual([7, null]);
  });

  it("leaves no process behind when the cell is killed", async () => {
    const cell = await cells.boot({ name: "killed", container });
    expect(await processesOf(cell)).not.toEqual([]);
    const exited = once(cell.process, "exit");
    cell.process.kill("SIGKILL");
    await exited;
    await expect.poll(() => processesOf(cell), { interval: 20 }).toEqual([]);
  });
});

/** Returns the entrypoint's output so far. */
function printed({ directory }: RunningCell): Promise<string> {
  return readFile(join(directory, "log", "0.log"), "utf8");
}

/** Returns the command lines that contain the cell's directory. */
async function processesOf({ directory }: RunningCell): Promise<string[]> {
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
  const lines = await Promise.all(pids.map((pid) => readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "")));
  return lines.filter((line) => line.includes(directory));
}
