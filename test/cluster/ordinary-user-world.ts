import { execFile, spawn } from "node:child_process";
import { globSync } from "node:fs";
import { chmod, chown, mkdir, mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";
import { promisify } from "node:util";
import { pythonImageName } from "../../src/local/images/python-image.ts";
import { acquireTools } from "../../src/local/tools/acquire-tools.ts";
import { toolNames } from "../../src/local/tools/pinned-tools.ts";
import { cacheDirectory, packageRoot } from "../../src/local/tools/tool.ts";
import { snapshotProgramNames } from "../../src/local/volumes/snapshot-programs.ts";
import { pythonRootPath } from "../setup/python-image.ts";

export interface Outcome {
  code: number;
  stdout: string;
  stderr: string;
}

/** Debian's `nobody`: no home directory, no subordinate ids, no permissions. */
const nobody = 65534;

/**
 * Runs `ramet` as an ordinary user. If the tests run as root, the user is `nobody`, with its own directories, the built tools,
 * and the program at a readable path. Otherwise it is the user of the tests.
 */
export class OrdinaryUser {
  readonly directory: string;
  readonly dataDirectory: string;
  readonly #program: string;
  readonly #root = process.getuid?.() === 0;

  private constructor(directory: string) {
    this.directory = directory;
    this.dataDirectory = join(directory, "data");
    this.#program = this.#root ? join(directory, "program") : packageRoot();
  }

  static async create(): Promise<OrdinaryUser> {
    const user = new OrdinaryUser(await mkdtemp(join(tmpdir(), "ramet-user-")));
    await chmod(user.directory, 0o755);
    for (const name of ["home", "data", "cache", "tmp", "program"])
      await user.#makeDirectory(join(user.directory, name));
    if (user.#root) await user.#giveTools();
    return user;
  }

  get kubeconfig(): string {
    return join(this.dataDirectory, "ramet", "ordinary", "kubeconfig");
  }

  get #cache(): string {
    return join(this.directory, "cache");
  }

  /** Runs `ramet` to its end. */
  ramet(...args: string[]): Promise<Outcome> {
    return this.run(this.command(...args));
  }

  /** The command line with which the user starts `ramet`. */
  command(...args: string[]): string[] {
    return [...this.#node(), join(this.#program, "bin", "ramet.mjs"), ...args];
  }

  /** Runs `ramet`, and resolves to its output without the last newline. Rejects if it does not exit with 0. */
  async output(...args: string[]): Promise<string> {
    const { code, stdout, stderr } = await this.ramet(...args);
    if (code !== 0) throw new Error(`ramet ${args.join(" ")} ended with ${code}: ${stderr}`);
    return stdout.trimEnd();
  }

  /** Runs any program as the user. */
  run(command: string[]): Promise<Outcome> {
    const [program = "", ...args] = this.#root ? [...this.#asNobody(), ...command] : command;
    const child = spawn(program, args, {
      cwd: join(this.directory, "home"),
      env: this.#environment(),
      stdio: ["ignore", "pipe", "pipe"],
    });
    const outcome = { stdout: "", stderr: "" };
    child.stdout.setEncoding("utf8").on("data", (text: string) => (outcome.stdout += text));
    child.stderr.setEncoding("utf8").on("data", (text: string) => (outcome.stderr += text));
    return new Promise((resolve, reject) => {
      child.once("error", reject);
      // Not "close": a supervisor that keeps running may hold the pipes open.
      child.once("exit", (code, signal) => {
        setImmediate(() => {
          resolve({ code: code ?? (signal === null ? 1 : 128), ...outcome });
        });
      });
    });
  }

  /** The command lines of the processes that use the user's directories. */
  async processes(): Promise<string[]> {
    const found = (await readdir("/proc")).map(async (pid) => {
      const [environment, command] = await Promise.all(
        ["environ", "cmdline"].map((name) => readFile(join("/proc", pid, name), "latin1").catch(() => "")),
      );
      const isTheirs = /^\d+$/.test(pid) && `${environment}${command}`.includes(this.directory);
      return isTheirs ? [command!.replaceAll("\0", " ")] : [];
    });
    return (await Promise.all(found)).flat();
  }

  /** The image `python` as a tar that contains files of root. */
  async pythonTar(): Promise<string> {
    const path = join(this.directory, "python.tar");
    await promisify(execFile)("tar", ["-c", "-f", path, "--numeric-owner", "-C", await pythonRootPath(), "."]);
    return path;
  }

  /** Adds the image `python` for the user, unless it is the user of the tests. */
  async addPythonImage(): Promise<void> {
    if (!this.#root) return;
    const tar = await this.pythonTar();
    await this.output("local", "image", "add", pythonImageName, tar);
    await rm(tar);
  }

  async remove(): Promise<void> {
    await this.ramet("local", "down", "--name", "ordinary", "--purge");
    await rm(this.directory, { recursive: true, force: true });
  }

  #node(): string[] {
    const own = process.execPath;
    const inside = relative(packageRoot(), own);
    return [inside.startsWith("..") ? own : join(this.#program, inside)];
  }

  #environment(): NodeJS.ProcessEnv {
    const { PATH, KUBEBUILDER_ASSETS, XDG_CACHE_HOME, HOME } = process.env;
    const own = {
      XDG_DATA_HOME: this.dataDirectory,
      TMPDIR: join(this.directory, "tmp"),
      KUBECONFIG: this.kubeconfig,
      // By default, Node uses TMPDIR.
      NODE_COMPILE_CACHE: join(this.#cache, "node"),
    };
    const shared = { PATH, ...(KUBEBUILDER_ASSETS !== undefined && { KUBEBUILDER_ASSETS }) };
    if (!this.#root) return { ...shared, ...own, HOME, ...(XDG_CACHE_HOME !== undefined && { XDG_CACHE_HOME }) };
    return { ...shared, ...own, HOME: join(this.directory, "home"), XDG_CACHE_HOME: this.#cache };
  }

  /** The program may be in a directory that only root can read, so it is mounted at another path. */
  #asNobody(): string[] {
    const script = 'mount --bind "$0" "$1" && shift && exec "$@"';
    const drop = ["setpriv", "--reuid", `${nobody}`, "--regid", `${nobody}`, "--clear-groups", "--"];
    return ["unshare", "--mount", "--", "sh", "-c", script, packageRoot(), this.#program, ...drop];
  }

  /** Gives the user hard links of the tools, or copies if the cache is on another file system. */
  async #giveTools(): Promise<void> {
    const cache = cacheDirectory();
    // Without the programs for volumes in their cache, the user's clusters build them in the background.
    const inCache = snapshotProgramNames.map((name) => `${name}/*/${name}`);
    const volumePrograms = globSync(inCache, { cwd: join(cache, "tools") }).map((path) => join(cache, "tools", path));
    for (const path of [...Object.values(await acquireTools({ names: toolNames })), ...volumePrograms]) {
      const version = relative(cache, dirname(path));
      if (version.startsWith("..")) continue; // It is in PATH, and the user has the same PATH.
      const parent = join(this.directory, "cache", "ramet", dirname(version));
      await this.#makeDirectory(parent);
      const copy = promisify(execFile);
      await copy("cp", ["-al", dirname(path), parent]).catch(() => copy("cp", ["-a", dirname(path), parent]));
    }
    for (const part of ["ramet", join("ramet", "tools")])
      await this.#makeDirectory(join(this.directory, "cache", part));
  }

  async #makeDirectory(path: string): Promise<void> {
    await mkdir(path, { recursive: true });
    if (this.#root) await chown(path, nobody, nobody);
  }
}
