import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import * as z from "zod";
import { type CellConfig, cellPort, type CellState, printFailedCell } from "../api/wire/cell-api.ts";
import { delay, systemClock } from "../base/clock.ts";
import { RametError } from "../base/errors.ts";
import { cellProver } from "./client/cell-proof.ts";
import { Activity } from "./checkpoint/activity.ts";
import { Cell } from "./lifecycle/cell.ts";
import { nodeCacheOf } from "./layers/node-cache.ts";
import { spawnLink } from "./network/link.ts";
import { EntrypointLog } from "./sandbox/entrypoint-log.ts";
import { serveAccess } from "./server/container-access.ts";
import { OpenResponses, cellServer } from "./server/server.ts";
import { keepStateFile, writeState } from "./server/reports.ts";
import { TcpProbes } from "./server/tcp-probes.ts";
import { tokenVerifier } from "./server/token-verifier.ts";
import { cellPaths, cellSetting } from "./setting/cell-setting.ts";
import { withImageUser } from "./setting/image-user.ts";

/** How long responses in transit may take after the sandbox has ended, and how long callers may ask why it has. */
const lingerMilliseconds = 250;
/** The time to remove a failed sandbox's processes, mounts and groups. The rest is removed with the Pod. */
const tearDownMilliseconds = 5_000;

const clock = systemClock;

/**
 * The cell's process: the only container of a sandbox Pod. Exit code: 0 if it was stopped, the entrypoint's exit code if that
 * exited, 70 if the sandbox failed. With `RAMET_CELL_SETTING=none` it only loads its program, which fills Node's compile cache.
 */
async function main(): Promise<number> {
  const mode = process.env["RAMET_CELL_SETTING"];
  if (mode === "none") return 0;
  const spawnedLink = spawnLink({ binary: cellPaths(process.env).link, log: report });
  const setting = await withImageUser(cellSetting(mode === "stdin" ? await readEnvironment() : process.env));
  const { config, paths, listen } = setting;
  const log = await EntrypointLog.open(join(paths.directory, "log"), clock);
  const activity = new Activity(clock);
  const cell = new Cell({ setting, spawnedLink, log, clock, report, cache: nodeCacheOf(setting, report), activity });
  const ended = untilEnd(cell);
  // Other processes prepare the sandbox while this one makes its server. A failure is in the cell's state.
  cell.start().catch(() => undefined);
  await serveAccess(paths.directory, cell);
  const responses = new OpenResponses();
  const server = cellServer({
    cell,
    responses,
    activity,
    verifier: tokenVerifier(config, config.sandbox.uid, clock),
    prover: cellProver(config.sandbox.uid),
    tcpProbes: new TcpProbes({ cell, ports: config.tcpProbePorts ?? [], clock }),
    logPath: log.path,
    report,
  });
  if (setting.ignored.length > 0) report("ignored unknown fields of RAMET_CELL", { fields: setting.ignored });
  // The local node reads the state file.
  if (paths.stateFile !== undefined) keepStateFile(cell, paths.stateFile, clock);
  const podDeleted = Promise.withResolvers<undefined>();
  for (const signal of ["SIGTERM", "SIGINT"] as const)
    process.on(signal, () => {
      podDeleted.resolve(undefined);
      // The local node sends it if the end is intended. No kubelet does.
      if (signal === "SIGINT") cell.termination.intend();
      void cell.terminate(`the cell received ${signal}`);
    });
  if (setting.isSideContainer) bootAlone(cell, config);
  else {
    // Clients may call as soon as the Pod has an address, while the sandbox is prepared.
    server.listen(cellPort, listen);
    await once(server, "listening");
  }
  const exitCode = await ended;
  if (paths.stateFile === undefined) await leaveMessage(cell.state);
  // Nobody asks the cell of a deleted Pod, and a resume of its sandbox may wait until the Pod is gone.
  const answered = podDeleted.promise.then(() => responses.finished());
  const lingered = Promise.race([answered, delay(clock, lingerMilliseconds)]);
  // A failed cell has not removed its sandbox yet. For a stopped one this does nothing.
  const tornDown = cell.stop("the sandbox failed").catch((error: unknown) => {
    report("removing the sandbox failed", { message: RametError.from(error).message });
  });
  await Promise.race([tornDown, delay(clock, tearDownMilliseconds)]);
  await log.close();
  await lingered;
  server.closeAllConnections();
  return exitCode;
}

/** Boots without a controller. Nobody else knows the token. */
function bootAlone(cell: Cell, { sandbox }: CellConfig): void {
  const identity = { sandboxId: sandbox.uid, hostname: sandbox.name, accessToken: randomUUID(), environment: {} };
  // A failure is in the cell's state.
  cell.boot(identity).catch(() => undefined);
}

function untilEnd(cell: Cell): Promise<number> {
  return new Promise((resolve) => {
    const removeListener = cell.onChange(({ phase, exitCode }) => {
      if (phase !== "stopped" && phase !== "failed") return;
      removeListener();
      resolve(phase === "failed" ? 70 : (exitCode ?? 0));
    });
  });
}

/** Where the kubelet looks for the last message of a container. It creates the file, and cuts messages after 4096 bytes. */
const terminationLog = "/dev/termination-log";
const longestMessage = 3_000;

/** Leaves why the sandbox ended for the kubelet, which shows it in the Pod's status after the cell has exited. */
async function leaveMessage(state: CellState): Promise<void> {
  const { phase, exitCode, message = "" } = state;
  const isExpected = phase !== "failed" && (exitCode ?? 0) === 0;
  if (isExpected || message === "") return;
  const short = message.slice(0, longestMessage);
  const text = phase === "failed" ? printFailedCell({ ...state, message: short }) : short;
  await writeFile(terminationLog, text, { flag: "r+" }).catch(() => undefined);
}

/**
 * Reads the environment of a spare cell, which a node starts before there is a Pod for it: one line of JSON on stdin. The state
 * file shows that the spare waits. It exits when its input is closed, so it does not outlive its node.
 */
async function readEnvironment(): Promise<NodeJS.ProcessEnv> {
  const stateFile = process.env["RAMET_CELL_STATE_FILE"];
  if (stateFile !== undefined) writeState(stateFile, { phase: "preparing", generation: 0, ready: false });
  for await (const line of createInterface({ input: process.stdin })) {
    return z.record(z.string(), z.string()).parse(JSON.parse(line));
  }
  process.exit(0);
}

/** Writes a line of JSON to stderr: the cell's own log, separate from the sandbox's output. */
function report(message: string, detail: Record<string, unknown> = {}): void {
  process.stderr.write(`${JSON.stringify({ time: clock.now().toISOString(), message, ...detail })}\n`);
}

main().then(
  (code) => process.exit(code),
  (error: unknown) => {
    const { code, message, hint } = RametError.from(error);
    report("cell cannot start", { code, message, hint });
    process.exit(70);
  },
);
