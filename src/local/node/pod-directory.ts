import { closeSync, mkdirSync, openSync, readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import * as z from "zod";
import { CellState } from "../../api/cell/cell-api.ts";
import { sweepCgroups } from "../../cell/cgroup/record.ts";
import { ProcessIdentity } from "../process-identity.ts";

/** What the node must know of a Pod after its own restart. */
export const PodRecord = z.object({
  uid: z.string().min(1),
  namespace: z.string(),
  name: z.string(),
  ip: z.string(),
  /** The outer process: with it all of the Pod's processes, mounts and namespaces end. */
  process: ProcessIdentity,
  startedAt: z.string(),
  /** What its processes have in `RAMET_POD_FOLDER`, where that is not the Pod's directory: the name of the spare it was. */
  spare: z.string().optional(),
  /** Why the node has ended it, where a probe failed for good. */
  condemned: z.string().optional(),
});
export type PodRecord = z.infer<typeof PodRecord>;

/** The directory that a Pod has on the node from its start until the Pod object is gone. */
export class PodDirectory {
  readonly path: string;
  readonly cell: string;
  /** Where the cell keeps its state, in a directory that nothing else is written to: the node watches it. */
  readonly stateDirectory: string;
  readonly stateFile: string;
  /** What the cell and link say of themselves. */
  readonly cellLog: string;
  /** What the sandbox's entrypoint printed (src/cell/entrypoint-log.ts). */
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
    // Whoever asks for the log before the cell has come so far reads nothing, and may follow it.
    closeSync(openSync(this.entrypointLog, "a"));
  }

  /** Synchronous: between the start of a process and this record a crash would leave the process unknown. */
  writeRecord(record: PodRecord): void {
    writeFileSync(join(this.path, "pod.json.new"), JSON.stringify(record), { mode: 0o600 });
    renameSync(join(this.path, "pod.json.new"), join(this.path, "pod.json"));
  }

  readRecord(): PodRecord | undefined {
    return readJson(join(this.path, "pod.json"), PodRecord);
  }

  readState(): CellState | undefined {
    return readJson(this.stateFile, CellState);
  }

  /** The last line of the cell's own log that tells an error, for a process that ended before it had a state. */
  lastError(): { code: string; message: string } | undefined {
    return readText(this.cellLog)
      ?.trimEnd()
      .split("\n")
      .slice(-20)
      .map(errorOfLine)
      .findLast((error) => error !== undefined);
  }

  /** Removes it, and first what a killed cell left outside of it: no process of the Pod may run any more. */
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
  try {
    const { code, message, hint } = ErrorLine.parse(JSON.parse(line));
    return { code, message: hint === undefined || hint === "" ? message : `${message}. ${hint}` };
  } catch {
    return undefined;
  }
}

function readJson<T extends z.ZodType>(path: string, schema: T): z.infer<T> | undefined {
  const text = readText(path);
  if (text === undefined) return undefined;
  try {
    return schema.parse(JSON.parse(text));
  } catch {
    // Half of a file that a crash of the machine left is no record.
    return undefined;
  }
}

function readText(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}
