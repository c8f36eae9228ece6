import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import * as z from "zod";
import { cellPort } from "../api/cell/cell-api.ts";
import { RametError } from "../base/errors.ts";
import { cellSetting } from "./setting/cell-setting.ts";
import { Cell } from "./lifecycle/cell.ts";
import { serveAccess } from "./server/container-access.ts";
import { EntrypointLog } from "./sandbox/entrypoint-log.ts";
import { cellServer } from "./server/server.ts";
import { keepStateFile, writeState } from "./server/state-file.ts";
import { tokenVerifier } from "./server/token-verifier.ts";

/** How long answers that are on their way may take after the sandbox has ended. */
const lingerMilliseconds = 250;
/** What a failed sandbox's processes, mounts and groups get to go; the rest goes with the Pod. */
const tearDownMilliseconds = 5_000;

/**
 * The cell's process: the one container of a sandbox Pod. It exits with 0 when it was stopped, with the entrypoint's
 * exit code when that ended, and with 70 when the sandbox failed.
 */
async function main(): Promise<number> {
  const isSpare = process.env["RAMET_CELL_SETTING"] === "stdin";
  const setting = cellSetting(isSpare ? await lateEnvironment() : process.env);
  const { config, paths, listen } = setting;
  const log = await EntrypointLog.open(join(paths.directory, "log"));
  const cell = new Cell({ setting, log, report });
  const server = cellServer({ cell, verifier: tokenVerifier(config, config.sandbox.uid), logPath: log.path });
  const ended = untilEnd(cell);
  // A node of ours reads the cell's state; a kubelet starts its commands in the cell's container.
  if (paths.stateFile !== undefined) keepStateFile(cell, paths.stateFile);
  else await serveAccess(paths.directory, cell);
  for (const signal of ["SIGTERM", "SIGINT"] as const)
    process.on(signal, () => void cell.terminate(`the cell was asked to end (${signal})`));
  // Whoever knows the Pod's address calls at once; meanwhile the sandbox is made.
  server.listen(cellPort, listen);
  cell.start().catch(() => undefined);
  await once(server, "listening");
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
