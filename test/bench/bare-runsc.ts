import { spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync } from "node:fs";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ContainerSpec } from "../../src/api/wire/cell-api.ts";
import { type Link, spawnLink, startLink } from "../../src/cell/network/link.ts";
import { engineFlags } from "../../src/cell/sandbox/engine-flags.ts";
import { ociSpec } from "../../src/cell/sandbox/oci-spec.ts";
import { acquireTools } from "../../src/local/tools/acquire-tools.ts";
import { descendants, processesWith } from "../faults/processes.ts";
import type { CleanUp } from "./clean-up.ts";
import { memoryOf, type Memory } from "./memory.ts";
import { workloadCommand, workloadPort } from "./workload.ts";

/** The flags with which the cell calls `runsc`: bare means without Ramet, not with other settings. */
const flagsIn = (directory: string): string[] => [...engineFlags, `--overlay2=root:dir=${directory},size=10g`];

export interface BareRunscOptions {
  runsc: string;
  /** `ramet-link`, which creates the network namespaces. Not part of the measurement. */
  link: string;
  guest: string;
  rootPath: string;
  directory: string;
}

/** A directory and tools for bare sandboxes. `cleanUp` removes its content. */
export async function openBareRunsc(rootPath: string, cleanUp: CleanUp): Promise<BareRunscOptions> {
  const tools = await acquireTools({ names: ["runsc", "ramet-guest", "ramet-link"] });
  const { "ramet-guest": guest, "ramet-link": link, runsc } = tools;
  const directory = await mkdtemp(join(tmpdir(), "ramet-bare-"));
  const bare = { runsc, guest, link, rootPath, directory };
  cleanUp.add(() => rm(directory, { recursive: true, force: true }));
  cleanUp.add(() => unmountBareState(bare));
  return bare;
}

/** `runsc` keeps an empty network namespace mounted below its state. In a Pod the mount is removed with the Pod. */
export async function unmountBareState({ directory }: BareRunscOptions): Promise<void> {
  const unmount = spawn("umount", ["--quiet", "--lazy", join(directory, "runsc", "null-netns")], { stdio: "ignore" });
  await once(unmount, "exit");
}

/** A sandbox of gVisor without Ramet. The workload is PID 1. */
export class BareSandbox {
  readonly ip: string;
  readonly #options: BareRunscOptions;
  readonly #id: string;
  readonly #link: Link;
  #removed: Promise<void> | undefined;

  private constructor(options: BareRunscOptions, place: { id: string; ip: string; link: Link }) {
    this.#options = options;
    this.#id = place.id;
    this.ip = place.ip;
    this.#link = place.link;
  }

  /** Creates the network namespace and the bundle, which exist before a user runs `runsc`. */
  static async prepare(options: BareRunscOptions, number: number, sizeMiB: number): Promise<BareSandbox> {
    const ip = `127.67.${(process.pid % 250) + 1}.${(number % 250) + 1}`;
    // `runsc` accepts a prefix of an id, so no id may be a prefix of another.
    const id = `bare-${process.pid}-${String(number).padStart(5, "0")}`;
    const bundle = join(options.directory, id);
    await mkdir(bundle, { recursive: true });
    const link = await startLink(spawnLink({ binary: options.link }), {
      config: {
        socket: join(bundle, "link.sock"),
        listen: ip,
        ports: [workloadPort],
        egress: { allow: [], deny: [], default: "allow" },
        dns: { upstreams: [] },
      },
    });
    await link.prepare();
    await link.setGate(true);
    const sandbox = new BareSandbox(options, { id, ip, link });
    await writeFile(join(bundle, "resolv.conf"), "nameserver 169.254.17.1\n");
    await writeFile(join(bundle, "config.json"), JSON.stringify(sandbox.#spec(sizeMiB)));
    return sandbox;
  }

  async createAndStart(): Promise<void> {
    await this.create();
    await this.#runsc("start", this.#id);
  }

  /** Creates the sandbox, which waits for `restore`. */
  async create(): Promise<void> {
    await this.#runsc("create", "--bundle", this.#bundle, this.#id);
  }

  async checkpoint(imagePath: string): Promise<void> {
    await this.#runsc("checkpoint", "--leave-running", "--image-path", imagePath, this.#id);
  }

  async restore(imagePath: string): Promise<void> {
    await this.#runsc(
      "restore",
      "--detach",
      "--background",
      "--bundle",
      this.#bundle,
      "--image-path",
      imagePath,
      this.#id,
    );
  }

  /** Memory of gVisor's processes, without the network program. */
  async memory(): Promise<Memory> {
    const own = (await processesWith(this.#id)).filter(({ commandLine }) => `${commandLine} `.includes(`${this.#id} `));
    const below = await Promise.all(own.map(({ pid }) => descendants(pid)));
    const pids = new Set([...own, ...below.flat()].map(({ pid }) => pid));
    return memoryOf("gVisor (with the Python workload in it)", [...pids]);
  }

  /** Stops all of its processes. Can be called again. */
  remove(): Promise<void> {
    this.#removed ??= this.#remove();
    return this.#removed;
  }

  async #remove(): Promise<void> {
    await this.#runsc("delete", "-force", this.#id);
    await this.#link.stop();
    await rm(this.#bundle, { recursive: true, force: true });
  }

  get #bundle(): string {
    return join(this.#options.directory, this.#id);
  }

  #spec(sizeMiB: number): Record<string, unknown> {
    const command = workloadCommand(sizeMiB);
    const spec = ociSpec({
      container: ContainerSpec.parse({ name: "main", image: "python", command }),
      hostname: "bare",
      rootPath: this.#options.rootPath,
      guestPath: this.#options.guest,
      etcPath: this.#bundle,
      netnsPath: this.#link.netnsPath,
    });
    return { ...spec, process: { ...(spec["process"] as object), args: command } };
  }

  /** Its output goes to files, because the sandbox would inherit a pipe and keep it open. */
  async #runsc(...args: string[]): Promise<void> {
    const log = join(this.#bundle, "output");
    const output = openSync(log, "a");
    const child = spawn(
      this.#options.runsc,
      [...flagsIn(this.#options.directory), "--root", join(this.#options.directory, "runsc"), ...args],
      {
        stdio: ["ignore", output, output],
      },
    );
    closeSync(output);
    const [code] = (await once(child, "exit")) as [number | null];
    if (code !== 0) throw new Error(`runsc ${args[0] ?? ""} ended with ${code}: ${await readFile(log, "utf8")}`);
  }
}
