import { closeSync, copyFileSync, mkdirSync, openSync, readdirSync, rmSync, statSync, truncateSync } from "node:fs";
import { rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import * as z from "zod";
import { CellState } from "../../api/wire/cell-api.ts";
import { sweepCgroups } from "../../cell/cgroup/record.ts";
import { parsedJson } from "../../base/tolerant-parse.ts";
import { readIfExistsSync, readJsonSync, replaceFileSync } from "../files.ts";
import { ProcessIdentity } from "../../base/process-identity.ts";

/** The record of a Pod that the node needs after its own restart. */
export const PodRecord = z.object({
  uid: z.string().min(1),
  namespace: z.string(),
  name: z.string(),
  ip: z.string(),
  /** The outer process. All of the Pod's processes, mounts and namespaces end with it. */
  process: ProcessIdentity,
  startedAt: z.string(),
  /** The name of the spare that the Pod was started from, which its processes have in `RAMET_POD_FOLDER`. */
  spare: z.string().optional(),
  /** The failed startup or liveness probe because of which the node has stopped the Pod. */
  condemned: z.string().optional(),
});
export type PodRecord = z.infer<typeof PodRecord>;

const rotateAtBytes = 4 * 1024 * 1024;

/** A Pod's directory on the node, from its start until the Pod object is deleted. */
export class PodDirectory {
  readonly path: string;
  readonly cell: string;
  /** The node watches this directory. It contains only the cell's state. */
  readonly stateDirectory: string;
  readonly stateFile: string;
  /** The log of the cell and link. */
  readonly cellLog: string;
  /** The output of the sandbox's entrypoint (src/cell/entrypoint-log.ts). */
  readonly entrypointLog: string;
  readonly volumes: string;

  constructor(pods: string, uid: string) {
    this.path = join(pods, uid);
    this.cell = join(this.path, "cell");
    this.stateDirectory = join(this.path, "state");
    this.stateFile = join(this.stateDirectory, "state.json");
    this.cellLog = join(this.path, "cell.log");
    this.entrypointLog = join(this.cell, "log", "0.log");
    this.volumes = join(this.path, "volumes");
  }

  make(): void {
    const directories = [this.path, this.cell, this.stateDirectory, dirname(this.entrypointLog)];
    for (const path of directories) mkdirSync(path, { recursive: true, mode: 0o700 });
    // Allows the log to be read and followed before the cell creates it.
    closeSync(openSync(this.entrypointLog, "a"));
  }

  /** Synchronous, because a crash between the start of a process and this write leaves the process without a record. */
  writeRecord(record: PodRecord): void {
    replaceFileSync(this.#recordPath, JSON.stringify(record));
  }

  readRecord(): PodRecord | undefined {
    return readJsonSync(PodRecord, this.#recordPath);
  }

  /** For a process that is known to have ended. */
  removeRecord(): void {
    rmSync(this.#recordPath, { force: true });
  }

  get #recordPath(): string {
    return join(this.path, "pod.json");
  }

  readState(): CellState | undefined {
    return readJsonSync(CellState, this.stateFile);
  }

  /** The last error in the cell's log, for a process that ended before it had a state. */
  lastError(): { code: string; message: string } | undefined {
    return readIfExistsSync(this.cellLog)
      ?.trimEnd()
      .split("\n")
      .slice(-20)
      .map(errorOfLine)
      .findLast((error) => error !== undefined);
  }

  /**
   * Moves the cell's log to `cell.log.1` if it is large. The cell keeps the file open and appends to it, so the content is copied
   * and the file is emptied. Lines that are written meanwhile are lost.
   */
  rotateCellLog(): void {
    const sizeBytes = statSync(this.cellLog, { throwIfNoEntry: false })?.size ?? 0;
    if (sizeBytes <= rotateAtBytes) return;
    copyFileSync(this.cellLog, `${this.cellLog}.1`);
    truncateSync(this.cellLog);
  }

  /** Removes the directory and the control groups of a killed cell. All processes of the Pod must have ended. */
  async remove(): Promise<void> {
    await sweepCgroups(this.cell);
    // Processes of a namespace that was just killed may still be closing files.
    await rm(this.path, { recursive: true, force: true, maxRetries: 5, retryDelay: 20 });
  }
}

/** The UIDs of the Pods that have a directory. */
export function podDirectories(pods: string): string[] {
  mkdirSync(pods, { recursive: true, mode: 0o700 });
  return readdirSync(pods, { withFileTypes: true }).flatMap((entry) => (entry.isDirectory() ? [entry.name] : []));
}

const ErrorLine = z.object({ code: z.string(), message: z.string(), hint: z.string().optional() });

function errorOfLine(line: string): { code: string; message: string } | undefined {
  const { code, message, hint = "" } = parsedJson(ErrorLine, line) ?? {};
  if (code === undefined || message === undefined) return undefined;
  return { code, message: hint === "" ? message : `${message}. ${hint}` };
}
