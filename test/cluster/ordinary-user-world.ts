import { execFile, spawn } from "node:child_process";
import { chmod, chown, mkdir, mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";
import { promisify } from "node:util";
import { pythonImageName } from "../../src/local/images/python-image.ts";
import { acquireTools } from "../../src/local/tools/acquire-tools.ts";
import { toolNames } from "../../src/local/tools/pinned-tools.ts";
import { cacheDirectory, packageRoot } from "../../src/local/tools/tool.ts";
import { pythonRootPath } from "../setup/python-image.ts";

export interface Outcome {
  code: number;
  stdout: string;
  stderr: string;
}

/** Debian's `nobody`: no name's home, no subordinate ids, no rights anywhere. */
const nobody = 65534;

/**
 * `ramet` as an ordinary user types it. A suite that runs as root takes the part of `nobody`, who gets directories of its own,
 * the tools that are built, and the program at a path that it may read; any other suite runs it as itself.
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
    for (const name of ["home", "data", "cache", "tmp", "program"]) await user.#makeFolder(join(user.directory, name));
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

  /** The words with which the user starts `ramet`. */
  command(...args: string[]): string[] {
    return [...this.#node(), join(this.#program, "bin", "ramet.mjs"), ...args];
  }

  /** Its standard output, without the last line's end; an error when it does not exit with 0. */
  async say(...args: string[]): Promise<string> {
    const { code, stdout, stderr } = await this.ramet(...args);
    if (code !== 0) throw new Error(`ramet ${args.join(" ")} ended with ${code}: ${stderr}`);
    return stdout.trimEnd();
  }

  /** Runs any program as the user. */
  run(words: string[]): Promise<Outcome> {
    const [program = "", ...args] = this.#root ? [...this.#asNobody(), ...words] : words;
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
      // Not "close": a supervisor that goes on may keep the pipes.
      child.once("exit", (code, signal) => {
        setImmediate(() => {
          resolve({ code: code ?? (signal === null ? 1 : 128), ...outcome });
        });
      });
    });
  }

  /** The command lines of what runs in the user's directories. */
  async processes(): Promise<string[]> {
    const found = (await readdir("/proc")).map(async (pid) => {
      const [environment, command] = await Promise.all(
        ["environ", "cmdline"].map((name) => readFile(join("/proc", pid, name), "latin1").catch(() => "")),
      );
      const its = /^\d+$/.test(pid) && `${environment}${command}`.includes(this.directory);
      return its ? [command!.replaceAll("\0", " ")] : [];
    });
    return (await Promise.all(found)).flat();
  }

  /** The image `python` as a tar, as somebody else may have made it: with root's files in it. */
  async pythonTar(): Promise<string> {
    const path = join(this.directory, "python.tar");
    await promisify(execFile)("tar", ["-c", "-f", path, "--numeric-owner", "-C", await pythonRootPath(), "."]);
    return path;
  }

  /** Gives the user the image `python`, if it is not the suite's own user. */
  async addPythonImage(): Promise<void> {
    if (!this.#root) return;
    const tar = await this.pythonTar();
    await this.say("local", "image", "add", pythonImageName, tar);
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
      // Else Node would keep it below TMPDIR.
      NODE_COMPILE_CACHE: join(this.#cache, "node"),
    };
    const shared = { PATH, ...(KUBEBUILDER_ASSETS !== undefined && { KUBEBUILDER_ASSETS }) };
    if (!this.#root) return { ...shared, ...own, HOME, ...(XDG_CACHE_HOME !== undefined && { XDG_CACHE_HOME }) };
    return { ...shared, ...own, HOME: join(this.directory, "home"), XDG_CACHE_HOME: this.#cache };
  }

  /** The program may lie where only root may look: it is shown to the user at another path. */
  #asNobody(): string[] {
    const script = 'mount --bind "$0" "$1" && shift && exec "$@"';
    const drop = ["setpriv", "--reuid", `${nobody}`, "--regid", `${nobody}`, "--clear-groups", "--"];
    return ["unshare", "--mount", "--", "sh", "-c", script, packageRoot(), this.#program, ...drop];
  }

  /** Hard links, or copies where the cache is on another file system. */
  async #giveTools(): Promise<void> {
    const cache = cacheDirectory();
    for (const path of Object.values(await acquireTools({ names: toolNames }))) {
      const version = relative(cache, dirname(path));
      if (version.startsWith("..")) continue; // found in PATH, where the user finds it too
      const parent = join(this.directory, "cache", "ramet", dirname(version));
      await this.#makeFolder(parent);
      const copy = promisify(execFile);
      await copy("cp", ["-al", dirname(path), parent]).catch(() => copy("cp", ["-a", dirname(path), parent]));
    }
    for (const part of ["ramet", join("ramet", "tools")]) await this.#makeFolder(join(this.directory, "cache", part));
  }

  async #makeFolder(path: string): Promise<void> {
    await mkdir(path, { recursive: true });
    if (this.#root) await chown(path, nobody, nobody);
  }
}
