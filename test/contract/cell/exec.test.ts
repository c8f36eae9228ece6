import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { builtPrograms } from "../../setup/built-package.ts";
import type { RunningCell } from "../../setup/cell-rig.ts";
import { Cells } from "../../setup/cells.ts";

interface Ended {
  code: number;
  stdout: string;
  stderr: string;
}

/** Runs `ramet cell exec` as a kubelet does in the cell's container: with the container's variables. */
async function execBeside({ environment }: Pick<RunningCell, "environment">, ...args: string[]): Promise<Ended> {
  const [program, ...own] = builtPrograms.ramet;
  try {
    const { stdout, stderr } = await promisify(execFile)(program, [...own, "cell", "exec", ...args], {
      env: environment,
    });
    return { code: 0, stdout, stderr };
  } catch (error) {
    const { code, stdout, stderr } = error as Ended;
    return { code, stdout, stderr };
  }
}

describe("ramet cell exec", () => {
  let cells: Cells;
  const container = { env: [{ name: "DECLARED", value: "declared" }] };

  beforeAll(async () => {
    cells = await Cells.open();
  });
  afterAll(() => cells.close());

  it("runs a probe's command in the sandbox with its variables, and returns its exit code", async () => {
    const cell = await cells.boot({ name: "probed", container });
    expect(await execBeside(cell, "--", "sh", "-c", "echo $DECLARED; hostname; exit 3")).toEqual({
      code: 3,
      stdout: "declared\nprobed\n",
      stderr: "",
    });
    const clone = { ...cell.identity, accessToken: "another", hostname: "renamed" };
    await cells.client.identity(cell.address, { identity: clone });
    expect(await execBeside(cell, "--", "hostname")).toMatchObject({ code: 0, stdout: "renamed\n" });
  });

  it("waits for the sandbox in a postStart hook, also before it has an identity", async () => {
    const cell = await cells.rig.startCell({ name: "hooked", container, start: "boot" });
    expect(await execBeside(cell, "--at-start", "--", "sh", "-c", "echo $DECLARED > /hooked")).toMatchObject({
      code: 0,
    });
    await cells.client.boot(cell.address, { identity: cell.identity });
    expect(await execBeside(cell, "--", "cat", "/hooked")).toMatchObject({ stdout: "declared\n" });
  });

  it("does not run a postStart hook again in a clone", async () => {
    const cell = await cells.rig.startCell({ name: "clone", container, start: "wait" });
    expect(await execBeside(cell, "--at-start", "--", "false")).toEqual({ code: 0, stdout: "", stderr: "" });
  });

  it("fails if there is no sandbox", async () => {
    const cell = await cells.rig.startCell({ name: "empty", container, start: "wait" });
    const before = await execBeside(cell, "--", "true");
    expect(before.code).toBe(1);
    const nowhere = { ...cell.environment, RAMET_CELL_DIRECTORY: "/nowhere" };
    const without = await execBeside({ environment: nowhere }, "--", "true");
    expect(without.stderr).toContain("cannot reach the cell in this container");
    expect(without.stderr).toContain("[SandboxNotReady]");
  });
});
