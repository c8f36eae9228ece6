import { appendFile, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { RametError } from "../api/errors.ts";
import { inLeaves } from "./cgroup/enter.ts";
import type { SandboxCgroup } from "./cgroup/sandbox-cgroup.ts";
import { roomHint } from "../store/store-error.ts";
import { runProgram } from "./run-program.ts";

export interface EngineOptions {
  /** gVisor's `runsc`. */
  runsc: string;
  /** The cell's own folder: gVisor's state, the bundle and its log are kept below it. */
  directory: string;
  /** Names the container; gVisor's sockets are named after it, so it must be unique in the cell's network namespace. */
  id: string;
  /**
   * Keeps what the sandbox writes to its volumes in its memory, like its root: for machines on which all files must belong
   * to one user, where gVisor could not give them to another. @default false
   */
  volumesInMemory?: boolean;
  /** The leaves in which the sandbox runs, where its resources are limited. */
  cgroup?: SandboxCgroup | undefined;
}

export interface EngineOutput {
  stdout: Readable;
  stderr: Readable;
  /** What the sandbox printed while it was being created. */
  early: { stdout: string; stderr: string };
}

/** What a checkpoint has kept of a sandbox's memory. */
export interface SavedMemory {
  imagePath: string;
  /** Pages may be read still when the restore has returned. */
  background: boolean;
}

const commandTimeoutMilliseconds = 120_000;

/** One gVisor sandbox, driven through `runsc`. Each call is one command; none is bound to a request's life. */
export class Engine {
  readonly #options: EngineOptions;
  readonly #bundle: string;
  readonly #log: string;
  readonly #pidFile: string;

  constructor(options: EngineOptions) {
    this.#options = options;
    this.#bundle = join(options.directory, "bundles", options.id);
    this.#log = join(options.directory, "runsc.log");
    this.#pidFile = join(this.#bundle, "sandbox.pid");
  }

  /** Makes the sandbox and starts it. Its output comes back as streams that end with it. */
  run(spec: Record<string, unknown>): Promise<EngineOutput> {
    return this.#make(["run", "--detach"], spec);
  }

  /** Makes the sandbox of a checkpoint's memory. */
  runFrom(spec: Record<string, unknown>, memory: SavedMemory): Promise<EngineOutput> {
    return this.#make(restoreCommand(memory), spec);
  }

  /** Makes the sandbox, in which nothing runs until `start` or `restore`. */
  create(spec: Record<string, unknown>): Promise<EngineOutput> {
    return this.#make(["create"], spec);
  }

  /** Starts what `create` has made. */
  async start(): Promise<void> {
    await this.#run(["start", this.#options.id]);
  }

  /** Gives what `create` has made a checkpoint's memory. */
  async restore(memory: SavedMemory): Promise<void> {
    await this.#run([...restoreCommand(memory), this.#options.id]);
  }

  /**
   * Sends a signal to gVisor itself, which no sandbox withstands: `SIGSTOP` has it stand still from this moment, and answer
   * nobody. `destroy` is needed all the same. Not to be called when the sandbox' end has been seen: its number may be
   * another process's then.
   */
  async halt(signal: "SIGSTOP" | "SIGKILL"): Promise<void> {
    const pid = Number(await readFile(this.#pidFile, "utf8"));
    try {
      process.kill(pid, signal);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
    }
  }

  /** Whether gVisor's own process runs: it may be gone for a while before the end of the sandbox is seen. */
  async isThere(): Promise<boolean> {
    const pid = (await readFile(this.#pidFile, "utf8")).trim();
    const stat = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => "");
    // The state (proc_pid_stat(5)) comes after the program's name in parentheses; Z and X are processes that have ended.
    return /^ [^ZX]/.test(stat.slice(stat.lastIndexOf(")") + 1));
  }

  /** Returns when every page of a restore is in. */
  async untilLoaded(): Promise<void> {
    await this.#run(["wait", "-restore", this.#options.id]);
  }

  async pause(): Promise<void> {
    await this.#run(["pause", this.#options.id]);
  }

  async resume(): Promise<void> {
    await this.#run(["resume", this.#options.id]);
  }

  /** Writes memory and kernel state into `imagePath`; a running sandbox stands still meanwhile and then goes on. */
  async checkpoint(imagePath: string): Promise<void> {
    await this.#writing(["checkpoint", "--leave-running", "--image-path", imagePath, this.#options.id]);
  }

  /** Writes the changed files of the root filesystem as a tar, deletions included. */
  async saveFilesystem(file: string): Promise<void> {
    await this.#writing(["tar", "rootfs-upper", "--file", file, this.#options.id]);
  }

  /** Sends a signal to PID 1, the guest, which passes it on to the entrypoint. */
  async signal(name: "TERM"): Promise<void> {
    await this.#run(["kill", this.#options.id, name]);
  }

  /** Ends the sandbox and forgets it. A sandbox that is gone already counts as done. */
  async destroy(): Promise<void> {
    try {
      await this.#run(["delete", "-force", this.#options.id]);
    } catch (error) {
      const state = await this.#run(["list", "-quiet"]).catch(() => undefined);
      if (state === undefined || state.stdout.split("\n").includes(this.#options.id)) throw error;
    }
    await rm(this.#bundle, { recursive: true, force: true });
  }

  async #make(command: readonly string[], spec: Record<string, unknown>): Promise<EngineOutput> {
    await mkdir(this.#bundle, { recursive: true });
    await writeFile(join(this.#bundle, "config.json"), JSON.stringify(spec));
    const args = [...command, "--bundle", this.#bundle, "--pid-file", this.#pidFile, this.#options.id];
    const { child, stdout, stderr } = await this.#run(args, this.#options.cgroup?.enter);
    if (child.stdout === null || child.stderr === null)
      throw new RametError("Internal", `runsc ${command[0] ?? ""}: has no output pipes`);
    return { stdout: child.stdout, stderr: child.stderr, early: { stdout, stderr } };
  }

  /** What gVisor writes for a checkpoint is not charged to the sandbox's memory limit, which it would break. */
  async #writing(args: string[]): Promise<void> {
    const { cgroup } = this.#options;
    if (cgroup === undefined) await this.#run(args);
    else await cgroup.aside(Number(await readFile(this.#pidFile, "utf8")), () => this.#run(args));
  }

  async #run(args: string[], enter: readonly string[] = []): ReturnType<typeof runProgram> {
    const overlay = this.#options.volumesInMemory === true ? "all:memory" : "root:memory";
    const result = await runProgram({
      ...inLeaves(enter, this.#options.runsc, [
        ...engineFlags,
        `--overlay2=${overlay}`,
        "--root",
        join(this.#options.directory, "runsc"),
        "--log",
        this.#log,
        ...args,
      ]),
      what: `gVisor ${args[0] ?? ""}`,
      timeoutMilliseconds: commandTimeoutMilliseconds,
    });
    if (result.code === 0) return result;
    const why = result.stderr.trim() || (await this.#lastLogLine()) || `exit status ${result.code}`;
    await appendFile(this.#log, `ramet: ${args[0] ?? ""} failed: ${why}\n`).catch(() => undefined);
    const message = `gVisor ${args[0] ?? ""} failed: ${why.split("\n").at(-1) ?? why}`;
    if (why.includes("no space left on device")) throw new RametError("StoreFull", message, { hint: roomHint });
    throw new RametError("EngineFailed", message);
  }

  async #lastLogLine(): Promise<string | undefined> {
    const text = await readFile(this.#log, "utf8").catch(() => "");
    return text.trim().split("\n").at(-1);
  }
}

function restoreCommand({ imagePath, background }: SavedMemory): string[] {
  return ["restore", "--detach", ...(background ? ["--background"] : []), "--image-path", imagePath];
}

/**
 * The flags of every command, beside where the writable layer is: in the sandbox's memory, so a checkpoint holds it.
 * `--allow-suid` lets `sudo` work in agent images. gVisor makes no control groups: the cell does (src/cell/cgroup), for
 * less than the 60 ms that gVisor takes to move itself through every controller of version 1.
 */
export const engineFlags = [
  "--ignore-cgroups",
  "--network=sandbox",
  "--host-settings=ignore",
  "--allow-suid",
  "--allow-rootfs-tar-annotation",
] as const;
