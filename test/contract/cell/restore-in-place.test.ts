import { readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { CellState, RestoreResult } from "../../../src/api/wire/cell-api.ts";
import type { Contents } from "../../../src/api/schema/metadata.ts";
import { defined } from "../../../src/base/defined.ts";
import type { RunningCell } from "../../setup/cell-rig.ts";
import { heldRestores, sentries } from "../../setup/cell-processes.ts";
import { both, Cells } from "../../setup/cells.ts";
import { countAt, counterPort, counterScript } from "../../setup/counter.ts";

const container = { command: ["python3", "-c", counterScript], ports: [counterPort] };

describe("restore in place", () => {
  let cells: Cells;
  let source: RunningCell;
  const digests = new Map<string, string>();

  beforeAll(async () => {
    cells = await Cells.open();
    source = await running("source");
    await output(source, "echo kept > /my-file");
    await count(source);
    await capture("memory", both);
    await capture("files", ["filesystem"]);
  });
  afterAll(() => cells.close());

  const count = ({ address }: RunningCell): Promise<number> => countAt(address.ip);
  const output = (cell: RunningCell, script: string): Promise<string> => cells.output(cell, script);
  function running(
    name: string,
    options: { keepsWaiting?: true; memoryBytes?: number; environment?: Record<string, string> } = {},
  ): Promise<RunningCell> {
    const { memoryBytes, ...rest } = options;
    const limited = memoryBytes === undefined ? container : { ...container, resources: { memoryBytes } };
    return cells.boot({ name, container: limited, ...rest });
  }
  async function capture(checkpointId: string, contents: Contents, from = source): Promise<void> {
    const { manifestDigest } = await cells.checkpoint(from, checkpointId, { contents });
    digests.set(checkpointId, manifestDigest);
  }
  async function restore(
    cell: RunningCell,
    checkpointId: string,
    request: string,
    { reportsPrograms }: { reportsPrograms?: true } = {},
  ): Promise<RestoreResult> {
    const manifestDigest = digests.get(checkpointId) ?? `sha256:${"0".repeat(64)}`;
    const grant = await cells.readGrant({ checkpointId, manifestDigest });
    const contents: Contents = checkpointId === "files" ? ["filesystem"] : both;
    const identity = { ...cell.identity, environment: { REQUEST: request } };
    const call = { identity, grant, contents, request, ...defined({ reportsPrograms }) };
    return cells.client.restoreInPlace(cell.address, call);
  }
  async function state(cell: RunningCell): Promise<CellState> {
    return cells.client.state(cell.address);
  }

  it("restores a checkpoint at the same address, any number of times", async () => {
    for (const keepsWaiting of [undefined, true] as const) {
      const cell = await running(`restored-${keepsWaiting}`, keepsWaiting && { keepsWaiting });
      expect([await count(cell), await count(cell), await count(cell)]).toEqual([1, 2, 3]);
      await output(cell, "echo other > /my-file; sleep 1000 & echo $! > /left");
      for (const request of ["first", "second"]) {
        const { state: after, phases } = await restore(cell, "memory", request);
        expect(after).toMatchObject({ phase: "running", ready: true, generation: 2, memory: "loaded" });
        expect(Object.keys(phases)).toEqual(["store", "prepare", "gate", "engine", "handover"]);
        expect(await count(cell)).toBe(2);
        expect(await output(cell, "cat /my-file; hostname; echo $REQUEST; ls /left 2>/dev/null || true")).toBe(
          `kept\nrestored-${keepsWaiting}\n${request}`,
        );
      }
      await cells.client.stop(cell.address, "done");
      await expect.poll(() => cell.process.exitCode).toBe(0);
    }
  });

  it("assigns its identity to a checkpoint that was captured while identities changed", async () => {
    const cell = await running("changing", { keepsWaiting: true });
    const captured = new AbortController();
    const changing = (async () => {
      for (let number = 0; !captured.signal.aborted; number++) {
        const identity = { ...cell.identity, environment: { N: `${number}` } };
        await cells.client.identity(cell.address, { identity });
      }
    })();
    await capture("amid", both, cell).finally(() => {
      captured.abort();
    });
    await changing;
    const manifest = await readFile(join(cells.rig.directory, "store/test/checkpoints/amid/manifest.json"), "utf8");
    expect(JSON.parse(manifest)).not.toHaveProperty("generation");
    const { phases } = await restore(cell, "amid", "mine");
    expect(phases).toHaveProperty("guest");
    expect(await output(cell, "echo $REQUEST$N")).toBe("mine");
  });

  it("boots a sandbox on the files of a filesystem checkpoint", async () => {
    const cell = await running("files", { keepsWaiting: true });
    await count(cell);
    await restore(cell, "files", "1");
    expect(await count(cell)).toBe(1);
    expect(await output(cell, "cat /my-file")).toBe("kept");
    await restore(cell, "memory", "2");
    expect(await count(cell)).toBe(2);
  });

  it("restores although a replaced sandbox cannot be removed, which is removed with the cell", async () => {
    const runsc = join(cells.rig.directory, "runsc-that-does-not-delete");
    const refuse = join(cells.rig.directory, "refuse");
    const script = `case "$*" in *" delete "*) [ -e ${refuse} ] && { echo refused >&2; exit 1; };; esac`;
    await writeFile(runsc, `#!/bin/sh\n${script}\nexec ${cells.rig.tools.runsc} "$@"\n`, { mode: 0o755 });
    await writeFile(refuse, "");
    const cell = await running("unremoved", { environment: { RAMET_RUNSC: runsc } });
    await restore(cell, "memory", "1");
    await expect.poll(() => cell.logLines.some((line) => line.includes("refused"))).toBe(true);
    await restore(cell, "memory", "2");
    expect(await count(cell)).toBe(2);
    const roots = () => readdir(join(cell.directory, "runsc"));
    expect((await roots()).filter((name) => name.endsWith(".state"))).toHaveLength(3);
    await rm(refuse);
    await cells.client.stop(cell.address, "done");
    await expect.poll(() => cell.process.exitCode).toBe(0);
    expect((await roots()).filter((name) => name.endsWith(".state"))).toEqual([]);
  });

  it("reports which programs were ended and which run then, if that is requested", async () => {
    const cell = await running("programs", { keepsWaiting: true });
    const started = "sleep 1000 & sleep 1000 & cp $(command -v sleep) '/tmp/a b'; '/tmp/a b' 1000 &";
    // A child of the shell has its name until it executes the program.
    const until = "until [ $(cat /proc/[0-9]*/comm | grep -cE '^(sleep|a b)$') = 3 ]; do sleep 0.01; done";
    await output(cell, `exec > /dev/null 2>&1; ${started} ${until}`);
    const python = expect.stringMatching(/^python3/) as string;
    const one = { processes: 1, names: [python] };
    const reports = { reportsPrograms: true } as const;
    const { programs } = await restore(cell, "memory", "1", reports);
    expect(programs).toEqual({ ended: { processes: 4, names: ["a?b", python, "sleep"] }, running: one });
    expect(await restore(cell, "memory", "1", reports)).toMatchObject({ programs });
    // The program starts again.
    expect(await restore(cell, "files", "2", reports)).toMatchObject({ programs: { ended: one, running: one } });
    expect(await restore(cell, "memory", "3")).not.toHaveProperty("programs");
    const idle = await cells.boot({ name: "idle", keepsWaiting: true });
    expect(await restore(idle, "memory", "1", reports)).toMatchObject({
      programs: { ended: { processes: 0, names: [] }, running: one },
    });
  });

  it("replaces a sandbox whose guest does not answer, and reports that its programs are not known", async () => {
    const cell = await running("silent", { keepsWaiting: true });
    await expect.poll(() => sentries(cell).then((all) => all.length)).toBe(2);
    const [current] = await sentries(cell);
    process.kill(current!, "SIGSTOP");
    const { programs } = await restore(cell, "memory", "1", { reportsPrograms: true });
    expect(programs).toEqual({ running: { processes: 1, names: [expect.stringMatching(/^python3/)] } });
    expect(await count(cell)).toBe(2);
  });

  it("runs a repeated request once, and keeps the sandbox if the request fails", async () => {
    const cell = await running("twice", { keepsWaiting: true });
    await count(cell);
    await expect(restore(cell, "unknown", "0")).rejects.toMatchObject({ code: "CheckpointLost" });
    expect(await count(cell)).toBe(2);
    const [first, second] = await Promise.all([restore(cell, "memory", "1"), restore(cell, "memory", "1")]);
    expect(second).toEqual(first);
    expect(await count(cell)).toBe(2);
    expect(await restore(cell, "memory", "1")).toEqual(first);
    expect(await count(cell)).toBe(3);
    const both = await Promise.allSettled([restore(cell, "memory", "2"), restore(cell, "memory", "3")]);
    expect(both.map(({ status }) => status).toSorted()).toEqual(["fulfilled", "rejected"]);
    expect(await state(cell)).toMatchObject({ phase: "running", ready: true });
    expect(await count(cell)).toBe(2);
  });

  it("creates a sandbox if the waiting one was killed", async () => {
    const cell = await running("alone", { keepsWaiting: true });
    await expect.poll(() => sentries(cell).then((all) => all.length)).toBe(2);
    const [, waiting] = await sentries(cell);
    process.kill(waiting!, "SIGKILL");
    await expect.poll(() => sentries(cell).then((all) => all.length)).toBe(1);
    await restore(cell, "memory", "1");
    expect(await count(cell)).toBe(2);
  });

  it("runs the restore command in full if the early one was killed", async () => {
    const cell = await running("afresh", { keepsWaiting: true });
    await expect.poll(() => heldRestores(cell).then((all) => all.length)).toBe(1);
    for (const held of await heldRestores(cell)) process.kill(held, "SIGKILL");
    await expect.poll(() => heldRestores(cell).then((all) => all.length)).toBe(0);
    await restore(cell, "memory", "1");
    expect(await count(cell)).toBe(2);
  });

  it("runs the restore command in full if another process released the early one", async () => {
    const cell = await running("read", { keepsWaiting: true });
    await expect.poll(() => heldRestores(cell).then((all) => all.length)).toBe(1);
    const files = await readdir(cell.directory, { recursive: true });
    await Promise.all(
      files.filter((path) => path.endsWith("/restore.gate")).map((path) => readFile(join(cell.directory, path))),
    );
    await expect.poll(() => heldRestores(cell).then((all) => all.length)).toBe(0);
    await restore(cell, "memory", "1");
    expect(await count(cell)).toBe(2);
  });

  it("captures the new sandbox afterwards, and exits with its entrypoint", async () => {
    const cell = await running("on", { keepsWaiting: true, memoryBytes: 256 * 2 ** 20 });
    await restore(cell, "memory", "1");
    expect([await count(cell), await count(cell)]).toEqual([2, 3]);
    await capture("on", both, cell);
    expect(await count(cell)).toBe(4);
    await restore(cell, "on", "2");
    expect(await count(cell)).toBe(4);
    await fetch(`http://${cell.address.ip}:${counterPort}/end`).catch(() => undefined);
    await expect.poll(() => cell.process.exitCode).toBe(3);
  });
});
