import { renameSync, writeFileSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { z } from "zod";
import { cellPort, type CellState } from "../api/cell.ts";
import { RametError } from "../api/errors.ts";
import { cellSetting } from "./cell-setting.ts";
import { Cell } from "./cell.ts";
import { EntrypointLog } from "./entrypoint-log.ts";
import { cellServer } from "./server.ts";
import { tokenVerifier } from "./token-verifier.ts";

/** How long answers that are on their way may take after the sandbox has ended. */
const lingerMilliseconds = 250;
/** What a failed sandbox's processes, mounts and groups get to go; the rest goes with the Pod. */
const tearDownMilliseconds = 5_000;

/**
 * The cell's process: the one container of a sandbox Pod. It exits with 0 when it was stopped, with the entrypoint's
 * exit code when that ended, and with 70 when the sandbox failed.
 */
async function main(): Promise<number> {
  const setting = cellSetting(process.env["RAMET_CELL_SETTING"] === "stdin" ? await lateEnvironment() : process.env);
  const { config, paths, listen } = setting;
  await mkdir(paths.directory, { recursive: true });
  const log = await EntrypointLog.open(join(paths.directory, "log"));
  const cell = new Cell({ setting, log, report });
  const server = cellServer({ cell, verifier: tokenVerifier(config.publicKey, config.sandbox.uid), logPath: log.path });
  server.listen(cellPort, listen);
  await once(server, "listening");
  const ended = untilEnd(cell);
  if (paths.stateFile !== undefined) keepStateFile(cell, paths.stateFile);
  for (const signal of ["SIGTERM", "SIGINT"] as const)
    process.on(signal, () => void cell.terminate(`the cell was asked to end (${signal})`));
  cell.start().catch(() => undefined);
  const exitCode = await ended;
  const answersGone = new Promise((resolve) => setTimeout(resolve, lingerMilliseconds));
  // A cell that failed takes away what it had made, as one that was stopped has done already.
  const tornDown = cell.stop("the sandbox failed").catch((error: unknown) => {
    report("tearing down failed", { message: RametError.from(error).message });
  });
  await Promise.race([tornDown, new Promise((resolve) => setTimeout(resolve, tearDownMilliseconds))]);
  await log.close();
  await answersGone;
  server.closeAllConnections();
  return exitCode;
}

function untilEnd(cell: Cell): Promise<number> {
  return new Promise((resolve) => {
    const stop = cell.onChange(({ phase, exitCode }) => {
      if (phase !== "stopped" && phase !== "failed") return;
      stop();
      resolve(phase === "failed" ? 70 : (exitCode ?? 0));
    });
  });
}

/**
 * A node may start cells before it knows whose they will be: such a spare has everything loaded and gets its environment
 * as one line of JSON; that it is there it says by the file of its state. It ends when its input does, so none outlives
 * the node that keeps it.
 */
async function lateEnvironment(): Promise<NodeJS.ProcessEnv> {
  const stateFile = process.env["RAMET_CELL_STATE_FILE"];
  if (stateFile !== undefined) writeState(stateFile, { phase: "preparing", generation: 0, ready: false });
  for await (const line of createInterface({ input: process.stdin })) {
    return z.record(z.string(), z.string()).parse(JSON.parse(line));
  }
  process.exit(0);
}

/** Keeps the cell's state in a file for the node that runs it. Synchronous: the last state must be there when the process ends. */
function keepStateFile(cell: Cell, path: string): void {
  writeState(path, cell.state);
  cell.onChange((state) => {
    writeState(path, state);
  });
}

function writeState(path: string, state: CellState): void {
  writeFileSync(`${path}.new`, `${JSON.stringify(state)}\n`);
  renameSync(`${path}.new`, path);
}

/** One line of JSON on stderr: the cell's own log, apart from what the sandbox prints. */
function report(message: string, detail: Record<string, unknown> = {}): void {
  process.stderr.write(`${JSON.stringify({ time: new Date().toISOString(), message, ...detail })}\n`);
}

main().then(
  (code) => process.exit(code),
  (error: unknown) => {
    const { code, message, hint } = RametError.from(error);
    report("cell cannot start", { code, message, hint });
    process.exit(70);
  },
);
