import { appendFile, mkdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { RametError } from "../../base/errors.ts";
import { identifyProcess, isProcessRunning, type ProcessIdentity, signalProcess } from "../../base/process-identity.ts";
import { type ProgramResult, runProgram } from "../../base/run-program.ts";
import { inLeaves, type SandboxCgroup } from "../cgroup/sandbox-cgroup.ts";
import { engineFailure } from "./engine-build.ts";
import { engineFlags } from "./engine-flags.ts";
import { HeldCommand } from "./held-command.ts";
import type { ImageWrites, SavedFiles, SavedImages, SavedMemory } from "./saved-image.ts";

export interface EngineOptions {
  runsc: string;
  /** The cell's directory. It holds gVisor's state, the bundle and the log. */
  directory: string;
  /** The container id. gVisor names its sockets after it, so it must be unique in the cell's network namespace. */
  id: string;
  /** The size of the writable layer: the sandbox cannot write more files. */
  layerBytes: number;
  /**
   * A directory for the files that the sandbox writes to its root and to its volumes, each as a part of one hidden file. For
   * machines on which all files must belong to one user. @default the root itself, and no overlay over volumes
   */
  layersOfVolumes?: string | undefined;
  images: SavedImages;
  /** Variables of every command. */
  environment: Readonly<Record<string, string>>;
  /** The leaf control groups in which the sandbox runs. Undefined where its resources are not limited. */
  cgroup?: SandboxCgroup | undefined;
  /** Whether the sandbox and its cell share a memory limit. @default false */
  sharesMemory?: boolean;
}

export interface EngineOutput {
  stdout: Readable;
  stderr: Readable;
  /** Output that the sandbox printed while it was created. */
  early: { stdout: string; stderr: string };
}

const commandTimeoutMilliseconds = 120_000;
/** Longer than the largest memory or files take to load. */
const loadTimeoutMilliseconds = 3_600_000;
/** The slowest disk on which a checkpoint is completed. */
const leastBytesPerMillisecond = 10 * 1024;

/** Commands that can be started before they are needed: docs/decisions/0014. */
export type EarlyCommand = "restore" | "checkpoint" | "fscheckpoint";

/** One gVisor sandbox, controlled through `runsc`. Each call runs one command to its end, also when the client disconnects. */
export class Engine {
  readonly #options: EngineOptions;
  readonly #bundle: string;
  readonly #log: string;
  /** gVisor's own state. */
  readonly #root: string;
  readonly #pidFile: string;
  /** gVisor's own process. Its PID alone may belong to another one later. */
  #process: ProcessIdentity | undefined;
  readonly #early = new Map<EarlyCommand, Promise<HeldCommand | undefined>>();

  /** Whether gVisor reads the files of a checkpoint while the sandbox runs. */
  #loadsFiles = false;

  constructor(options: EngineOptions) {
    this.#options = options;
    this.#bundle = join(options.directory, "bundles", options.id);
    this.#log = join(options.directory, "runsc.log");
    this.#root = join(options.directory, "runsc");
    this.#pidFile = join(this.#bundle, "sandbox.pid");
  }

  /** Creates the sandbox and starts it. Its output streams end with the sandbox. */
  async run(spec: Record<string, unknown>, files?: SavedFiles): Promise<EngineOutput> {
    return this.#make(["run", "--detach", ...(await this.#filesArguments(files))], spec);
  }

  /** Creates the sandbox and restores a checkpoint's memory into it. */
  async runRestored(spec: Record<string, unknown>, memory: SavedMemory): Promise<EngineOutput> {
    const { path } = await this.#options.images.toRead(memory);
    return this.#make(restoreCommand(path, memory.background), spec);
  }

  /** Creates the sandbox. Nothing runs in it until `start` or `restore`. */
  async create(spec: Record<string, unknown>, files?: SavedFiles): Promise<EngineOutput> {
    return this.#make(["create", ...(await this.#filesArguments(files))], spec);
  }

  /** Creates the sandbox, and starts the command that restores a checkpoint into it early. */
  async createWaiting(spec: Record<string, unknown>): Promise<EngineOutput> {
    await mkdir(this.#bundle, { recursive: true });
    this.startEarly("restore");
    try {
      return await this.create(spec);
    } catch (error) {
      await this.dropEarly();
      throw error;
    }
  }

  /**
   * Starts a command before it is needed; it blocks when it opens its log. A command that cannot be started early is run in
   * full when it is needed.
   */
  startEarly(command: EarlyCommand): void {
    if (this.#early.has(command)) return;
    const { gate, root, image } = this.#earlyPaths(command);
    const args = this.#commandLine(this.#earlyArgs(command, image), { log: gate, root });
    const { runsc: program, environment } = this.#options;
    const options = { program, args, what: `gVisor ${command}`, environment, gate };
    this.#early.set(
      command,
      HeldCommand.start(options).catch(() => undefined),
    );
  }

  /** Kills the commands that were started early and not needed. */
  async dropEarly(): Promise<void> {
    const commands = [...this.#early.values()];
    this.#early.clear();
    for (const command of await Promise.all(commands)) await command?.drop();
  }

  async start(): Promise<void> {
    await this.#run(["start", this.#options.id]);
  }

  /** Restores a checkpoint's memory into a created sandbox. */
  async restore(memory: SavedMemory): Promise<void> {
    const { path, byGofer } = await this.#options.images.toRead(memory);
    if (byGofer) await this.dropEarly();
    if (!byGofer && !memory.background) return this.#runEarly("restore", path);
    const enter = byGofer ? this.#options.cgroup?.enter : undefined;
    await this.#run([...restoreCommand(path, memory.background), this.#options.id], enter);
  }

  /**
   * Sends a signal to gVisor's own process, which no sandbox can block. After `SIGSTOP` the sandbox no longer runs or responds,
   * and `destroy` is still needed. Does nothing after the sandbox has ended.
   */
  halt(signal: "SIGSTOP" | "SIGKILL"): void {
    if (this.#process !== undefined) signalProcess(this.#process, signal);
  }

  /** Whether gVisor's own process runs. It may have exited some time before the end of the sandbox is noticed. */
  async isRunning(): Promise<boolean> {
    if (this.#process === undefined || !isProcessRunning(this.#process)) return false;
    const { pid } = this.#process;
    // It is empty as soon as the exiting process starts to release its memory, which takes a while (proc_pid_cmdline(5)).
    const commandLine = await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "");
    return commandLine !== "";
  }

  /** Resolves when every page of a restore is loaded. @throws RametError if some cannot be, and reads of them fail */
  async untilLoaded(): Promise<void> {
    const args = ["wait", this.#loadsFiles ? "-fsrestore" : "-restore", this.#options.id];
    await this.#run(args, undefined, loadTimeoutMilliseconds);
  }

  get pid(): number | undefined {
    return this.#process?.pid;
  }

  async pause(): Promise<void> {
    await this.#run(["pause", this.#options.id]);
  }

  async resume(): Promise<void> {
    await this.#run(["resume", this.#options.id]);
  }

  /**
   * Writes memory, kernel state and files into `imagePath`. A running sandbox is paused meanwhile and then resumes.
   * @returns how many bytes share blocks of the disk with the writable layer
   */
  checkpoint(imagePath: string, writes: ImageWrites): Promise<number> {
    return this.#save("checkpoint", imagePath, writes);
  }

  /**
   * Writes the changed files of the root filesystem into `imagePath`, including deletions. A running sandbox is paused meanwhile
   * and then resumes.
   * @returns as `checkpoint`
   */
  saveFiles(imagePath: string, writes: ImageWrites): Promise<number> {
    return this.#save("fscheckpoint", imagePath, writes);
  }

  /** Sends a signal to PID 1, the guest, which forwards it to the entrypoint. */
  async signal(name: "TERM"): Promise<void> {
    await this.#run(["kill", this.#options.id, name]);
  }

  /** Stops the sandbox and deletes its state. Succeeds if the sandbox does not exist. */
  async destroy(): Promise<void> {
    await this.dropEarly();
    try {
      await this.#run(["delete", "-force", this.#options.id]);
    } catch (error) {
      const state = await this.#run(["list", "-quiet"]).catch(() => undefined);
      if (state === undefined || state.stdout.split("\n").includes(this.#options.id)) throw error;
    }
    await Promise.all([rm(this.#bundle, { recursive: true, force: true }), this.#options.images.remove()]);
  }

  async #filesArguments(files: SavedFiles | undefined): Promise<string[]> {
    if (files === undefined || "tar" in files) return [];
    this.#loadsFiles = true;
    return ["--fs-restore-image-path", (await this.#options.images.toRead(files)).path];
  }

  async #make(command: readonly string[], spec: Record<string, unknown>): Promise<EngineOutput> {
    await mkdir(this.#bundle, { recursive: true });
    await writeFile(join(this.#bundle, "config.json"), JSON.stringify(spec));
    const args = [...command, "--bundle", this.#bundle, "--pid-file", this.#pidFile, this.#options.id];
    const { cgroup, sharesMemory = false } = this.#options;
    const { child, stdout, stderr } = await this.#run(args, cgroup?.enter ?? (sharesMemory ? [] : undefined));
    this.#process = identifyProcess(Number(await readFile(this.#pidFile, "utf8")));
    if (child.stdout === null || child.stderr === null)
      throw new RametError("Internal", `gVisor ${command[0] ?? ""} failed: it has no output pipes`);
    return { stdout: child.stdout, stderr: child.stderr, early: { stdout, stderr } };
  }

  async #save(
    command: "checkpoint" | "fscheckpoint",
    imagePath: string,
    { pages, writtenBytes, clones }: ImageWrites,
  ): Promise<number> {
    const { id, images } = this.#options;
    const image = await images.toWrite(imagePath, { clones });
    try {
      if (pages === "direct") await this.dropEarly();
      const direct = [command, "--direct", "--leave-running", "--image-path", image.path, id];
      const limit = timeFor(writtenBytes);
      await this.#writing(() =>
        pages === "direct" ? this.#run(direct, undefined, limit) : this.#runEarly(command, image.path, limit),
      );
      return await image.clonedBytes();
    } finally {
      await image.remove();
    }
  }

  /** Charges the pages that gVisor writes for a checkpoint outside the sandbox's memory limit, which they would exceed. */
  async #writing(command: () => Promise<unknown>): Promise<void> {
    const { cgroup } = this.#options;
    if (cgroup === undefined || this.#process === undefined) await command();
    else await cgroup.aside(this.#process.pid, command);
  }

  /** Releases the command if it was started early, else runs it. */
  async #runEarly(command: EarlyCommand, imagePath: string, limit = commandTimeoutMilliseconds): Promise<void> {
    const held = await this.#early.get(command);
    this.#early.delete(command);
    if (held?.isRunning !== true) {
      await this.#run(this.#earlyArgs(command, imagePath), undefined, limit);
      return;
    }
    const { root, image } = this.#earlyPaths(command);
    await Promise.all([link(root, this.#root), link(image, imagePath)]);
    const { log, ...result } = await held.release(limit);
    if (log !== "") await appendFile(this.#log, log);
    await rm(root, { force: true });
    await this.#requireSuccess(command, result, imagePath);
  }

  #earlyArgs(command: EarlyCommand, imagePath: string): string[] {
    const { id } = this.#options;
    switch (command) {
      case "restore":
        return [...restoreCommand(imagePath, false), id];
      case "checkpoint":
      case "fscheckpoint":
        return [command, "--leave-running", "--image-path", imagePath, id];
    }
  }

  /**
   * The paths of a command that was started early: the pipe at which it blocks, and the links to gVisor's state and to the image,
   * which are created when it is released. If another process reads the pipe, the command finds no state and fails without harm.
   */
  #earlyPaths(command: EarlyCommand): { gate: string; root: string; image: string } {
    const path = join(this.#bundle, command);
    return { gate: `${path}.gate`, root: `${path}.state`, image: `${path}.image` };
  }

  async #run(
    args: string[],
    enter?: readonly string[],
    timeoutMilliseconds = commandTimeoutMilliseconds,
  ): Promise<ProgramResult> {
    const [command = ""] = args;
    const result = await runProgram({
      ...inLeaves(enter, this.#options.runsc, this.#commandLine(args, { log: this.#log, root: this.#root })),
      what: `gVisor ${command}`,
      environment: this.#options.environment,
      timeoutMilliseconds,
    });
    await this.#requireSuccess(command, result, imagePathIn(args));
    return result;
  }

  #commandLine(args: readonly string[], { log, root }: { log: string; root: string }): string[] {
    const { layerBytes, layersOfVolumes } = this.#options;
    const medium = layersOfVolumes === undefined ? "root:self" : `all:dir=${layersOfVolumes}`;
    return [...engineFlags, `--overlay2=${medium},size=${layerBytes}`, "--root", root, "--log", log, ...args];
  }

  async #requireSuccess(command: string, { code, stderr }: ProgramResult, imagePath?: string): Promise<void> {
    if (code === 0) return;
    const output = stderr.trim() || (await this.#lastLogLine()) || `exit status ${code}`;
    await appendFile(this.#log, `ramet: ${command} failed: ${output}\n`).catch(() => undefined);
    throw engineFailure({ command, output, imagePath });
  }

  async #lastLogLine(): Promise<string | undefined> {
    const text = await readFile(this.#log, "utf8").catch(() => "");
    return text.trim().split("\n").at(-1);
  }
}

function timeFor(bytes: number): number {
  return commandTimeoutMilliseconds + bytes / leastBytesPerMillisecond;
}

function imagePathIn(args: readonly string[]): string | undefined {
  const at = args.indexOf("--image-path");
  return at < 0 ? undefined : args[at + 1];
}

async function link(path: string, target: string): Promise<void> {
  await rm(path, { force: true });
  await symlink(target, path);
}

function restoreCommand(imagePath: string, background: boolean): string[] {
  return ["restore", "--detach", ...(background ? ["--background"] : []), "--image-path", imagePath];
}
