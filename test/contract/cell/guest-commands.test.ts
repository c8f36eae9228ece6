import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { ProcessEvent } from "../../../src/cell/client/guest-wire.ts";
import type { RunningCell } from "../../setup/cell-rig.ts";
import { Cells } from "../../setup/cells.ts";

const container = { command: ["sleep", "infinity"] };

/** What depends on gVisor: process groups, clocks and connections. */
describe("commands in a real sandbox", () => {
  let cells: Cells;
  let cell: RunningCell;

  beforeAll(async () => {
    cells = await Cells.open();
    cell = await cells.boot({ name: "commands", container });
  });
  afterAll(() => cells.close());

  it("continue when a child is stopped and another one exits", async () => {
    const script = "sleep 100 & p=$!; sleep 0.2; kill -STOP $p; sleep 0.2; /bin/true; echo alive; kill -KILL $p";
    expect(await cells.output(cell, script)).toBe("alive");
  });

  it("have all of their output, also what passes through a process substitution", async () => {
    const script = "bash -c 'exec > >(while read -r l; do sleep 0.01; echo \"late $l\"; done); seq 100'";
    expect((await cells.output(cell, script)).split("\n")).toHaveLength(100);
  });

  it("have a missing working directory created", async () => {
    const deep = await cells.boot({ name: "deep", container: { ...container, workingDir: "/srv/deep" } });
    expect(await cells.output(deep, "pwd; stat -c %a /srv/deep")).toBe("/srv/deep\n755");
  });

  it("leave the reason why the entrypoint cannot start", async () => {
    const stateFile = join(cells.rig.directory, "unstartable.json");
    const failing = await cells.rig.startCell({
      name: "unstartable",
      start: "boot",
      container: { command: ["/no/such/program"] },
      environment: { RAMET_CELL_STATE_FILE: stateFile },
    });
    const exited = once(failing.process, "exit");
    await cells.client.boot(failing.address, { identity: failing.identity });
    expect(await exited).toEqual([127, null]);
    expect(await readFile(stateFile, "utf8")).toContain(
      "starting the entrypoint failed: stat /no/such/program: no such file or directory",
    );
  });

  it("keep their connections inside the sandbox, and their time limits, in each generation of clones", async () => {
    await cells.guestOf(cell).writeFile("/tmp/pair.py", Buffer.from(pair));
    await cells.output(cell, "python3 /tmp/pair.py >/dev/null 2>&1 & sleep 1");
    const beats = cells.guestOf(cell).startProcess({
      command: "sh",
      args: ["-c", "while :; do date +%s > /tmp/beating; mv /tmp/beating /tmp/beat; sleep 0.1; done"],
      timeoutMilliseconds: 40_000,
      tag: "limited",
    });
    const events: ProcessEvent[] = [];
    const following = (async () => {
      for await (const event of beats) events.push(event);
    })().catch(() => undefined);
    const shown = (of: RunningCell) => cells.output(of, "sleep 0.5; cat /tmp/127.0.0.1 /tmp/169.254.17.2");
    const range = (of: RunningCell) => cells.output(of, "echo $(cat /proc/sys/net/ipv4/ip_local_port_range)");
    let generation = cell;
    for (const [number, keepRunning] of [true, false, true, true, true, false].entries()) {
      const checkpointId = `pair-${number}`;
      const ports = await range(generation);
      const { manifestDigest } = await cells.checkpoint(generation, checkpointId, { keepRunning });
      // More than the rest of the time limit in all.
      await sleep(8_000);
      generation = await cells.clone({ name: checkpointId, container }, { checkpointId, manifestDigest });
      expect(await range(generation)).not.toBe(ports);
      expect(await shown(generation), `generation ${number}`).toBe("open\nopen");
    }
    expect((await cells.guestOf(generation).listProcesses()).map(({ tag }) => tag)).toContain("limited");
    expect(await cells.output(generation, "echo $(($(date +%s) - $(cat /tmp/beat)))")).toMatch(/^[01]$/);
    await following;
  }, 240_000);
});

/** Keeps a connection to each address of the sandbox in use, and writes whether it is open. */
const pair = `
import os, socket, threading, time
def note(address, text):
    open("/tmp/new-" + address, "w").write(text + "\\n"); os.rename("/tmp/new-" + address, "/tmp/" + address)
def use(address):
    client = socket.create_connection((address, 9100)); server, _ = listener.accept()
    try:
        while True:
            client.sendall(b"x"); server.recv(1); server.sendall(b"y"); client.recv(1) or 1 / 0
            note(address, "open"); time.sleep(0.1)
    except Exception as error: note(address, repr(error))
listener = socket.socket(); listener.bind(("0.0.0.0", 9100)); listener.listen(4)
for address in ("127.0.0.1", "169.254.17.2"):
    threading.Thread(target=use, args=(address,)).start(); time.sleep(0.2)
`;
