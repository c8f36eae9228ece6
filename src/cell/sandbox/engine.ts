import { createHash } from "node:crypto";
import { appendFile, mkdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { arch } from "node:process";
import type { Readable } from "node:stream";
import type { EngineBuild } from "../../api/cell/cell-api.ts";
import { RametError } from "../../base/errors.ts";
import { type ProgramResult, runProgram } from "../../base/run-program.ts";
import { roomHint, scratchHint } from "../../store/store-error.ts";
import { inLeaves, type SandboxCgroup } from "../cgroup/sandbox-cgroup.ts";
import type { CellPaths } from "../setting/cell-setting.ts";
import { HeldCommand } from "./held-command.ts";

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

/** Commands that can be started before they are needed. */
export type Holdable = "restore" | "checkpoint";

/** One gVisor sandbox, driven through `runsc`. Each call is one command; none is bound to a request's life. */
export class Engine {
  readonly #options: EngineOptions;
  readonly #bundle: string;
  readonly #log: string;
  /** gVisor's own state. */
  readonly #root: string;
  readonly #pidFile: string;
  readonly #held = new Map<Holdable, Promise<HeldCommand | undefined>>();

  constructor(options: EngineOptions) {
    this.#options = options;
    this.#bundle = join(options.directory, "bundles", options.id);
    this.#log = join(options.directory, "runsc.log");
    this.#root = join(options.directory, "runsc");
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

  /**
   * Begins with a command that is likely to be needed, as far as it goes without what is not known yet. A command that cannot
   * be held is run from its beginning when it is needed.
   */
  hold(command: Holdable): void {
    if (this.#held.has(command)) return;
    const { gate, root, image } = this.#heldPaths(command);
    const args = this.#commandLine(this.#holdable(command, image), { log: gate, root });
    const options = { program: this.#options.runsc, args, what: `gVisor ${command}`, gate };
    this.#held.set(
      command,
      HeldCommand.start(options).catch(() => undefined),
    );
  }

  /** Ends what is held and was not needed. */
  async dropHeld(): Promise<void> {
    const held = [...this.#held.values()];
    this.#held.clear();
    for (const each of await Promise.all(held)) await each?.drop();
  }

  /** Starts what `create` has made. */
  async start(): Promise<void> {
    await this.#run(["start", this.#options.id]);
  }

  /** Gives what `create` has made a checkpoint's memory. */
  async restore({ imagePath, background }: SavedMemory): Promise<void> {
    if (background) await this.#run([...restoreCommand({ imagePath, background }), this.#options.id]);
    else await this.#runHeld("restore", imagePath);
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
    // One that ends has none from the moment at which its memory begins to go, which takes a while (proc_pid_cmdline(5)).
    const commandLine = await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "");
    return commandLine !== "";
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
    await this.#writing(() => this.#runHeld("checkpoint", imagePath));
  }

  /** Writes the changed files of the root filesystem as a tar, deletions included. */
  async saveFilesystem(file: string): Promise<void> {
    await this.#writing(() => this.#run(["tar", "rootfs-upper", "--file", file, this.#options.id]));
  }

  /** Sends a signal to PID 1, the guest, which passes it on to the entrypoint. */
  async signal(name: "TERM"): Promise<void> {
    await this.#run(["kill", this.#options.id, name]);
  }

  /** Ends the sandbox and forgets it. A sandbox that is gone already counts as done. */
  async destroy(): Promise<void> {
    await this.dropHeld();
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
  async #writing(command: () => Promise<unknown>): Promise<void> {
    const { cgroup } = this.#options;
    if (cgroup === undefined) await command();
    else await cgroup.aside(Number(await readFile(this.#pidFile, "utf8")), command);
  }

  /** Lets the command go on that is held, or runs it from its beginning. */
  async #runHeld(command: Holdable, imagePath: string): Promise<void> {
    const held = await this.#held.get(command);
    this.#held.delete(command);
    if (held?.isThere !== true) {
      await this.#run(this.#holdable(command, imagePath));
      return;
    }
    const { root, image } = this.#heldPaths(command);
    await Promise.all([link(root, this.#root), link(image, imagePath)]);
    const { log, ...result } = await held.release(commandTimeoutMilliseconds);
    if (log !== "") await appendFile(this.#log, log);
    await rm(root, { force: true });
    await this.#requireSuccess(command, result);
  }

  #holdable(command: Holdable, imagePath: string): string[] {
    const { id } = this.#options;
    switch (command) {
      case "restore":
        return [...restoreCommand({ imagePath, background: false }), id];
      case "checkpoint":
        return ["checkpoint", "--leave-running", "--image-path", imagePath, id];
    }
  }

  /**
   * Of a command that is held: at what it waits, and where it will find gVisor's state and its image once it is let go on. One
   * that somebody else lets go on, by reading what it waits at, finds no state and fails, which harms nobody.
   */
  #heldPaths(command: Holdable): { gate: string; root: string; image: string } {
    const path = join(this.#bundle, command);
    return { gate: `${path}.gate`, root: `${path}.state`, image: `${path}.image` };
  }

  async #run(args: string[], enter: readonly string[] = []): Promise<ProgramResult> {
    const [command = ""] = args;
    const result = await runProgram({
      ...inLeaves(enter, this.#options.runsc, this.#commandLine(args, { log: this.#log, root: this.#root })),
      what: `gVisor ${command}`,
      timeoutMilliseconds: commandTimeoutMilliseconds,
    });
    await this.#requireSuccess(command, result);
    return result;
  }

  #commandLine(args: readonly string[], { log, root }: { log: string; root: string }): string[] {
    const overlay = this.#options.volumesInMemory === true ? "all:memory" : "root:memory";
    return [...engineFlags, `--overlay2=${overlay}`, "--root", root, "--log", log, ...args];
  }

  async #requireSuccess(command: string, { code, stderr }: ProgramResult): Promise<void> {
    if (code === 0) return;
    const why = stderr.trim() || (await this.#lastLogLine()) || `exit status ${code}`;
    await appendFile(this.#log, `ramet: ${command} failed: ${why}\n`).catch(() => undefined);
    const message = `gVisor ${command} failed: ${why.split("\n").at(-1) ?? why}`;
    if (why.includes("no space left on device")) {
      throw new RametError("StoreFull", message, { hint: `${roomHint} Where the store is a bucket: ${scratchHint}` });
    }
    throw new RametError("EngineFailed", message);
  }

  async #lastLogLine(): Promise<string | undefined> {
    const text = await readFile(this.#log, "utf8").catch(() => "");
    return text.trim().split("\n").at(-1);
  }
}

async function link(path: string, target: string): Promise<void> {
  await rm(path, { force: true });
  await symlink(target, path);
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

const timeoutMilliseconds = 20_000;

/** Which gVisor and which guest these are: a checkpoint's memory can be restored by the very same builds only. */
export async function engineBuild({ runsc, guest }: Pick<CellPaths, "runsc" | "guest">): Promise<EngineBuild> {
  const [{ code, stdout, stderr }, bytes] = await Promise.all([
    runProgram({ program: runsc, args: ["--version"], timeoutMilliseconds }),
    readFile(guest),
  ]);
  const version = /runsc version (\S+)/.exec(stdout)?.[1];
  if (code !== 0 || version === undefined) {
    throw new RametError(
      "EngineFailed",
      `gVisor ${runsc} does not say its version: ${stderr.trim() || `exit ${code}`}`,
    );
  }
  const digest = `sha256:${createHash("sha256").update(bytes).digest("hex")}`;
  return { version, architecture: arch === "x64" ? "amd64" : arch, guest: digest };
}
