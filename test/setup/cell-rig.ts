import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { CellConfig, type ContainerSpec, type Identity } from "../../src/api/wire/cell-api.ts";
import { sweepCgroups } from "../../src/cell/cgroup/record.ts";
import { CellClient, type CellAddress } from "../../src/cell/client/cell-client.ts";
import { cellKeyFromPem, guestAccessToken, newCellKeyPem } from "../../src/cell/client/cell-token.ts";
import { acquireTools } from "../../src/local/tools/acquire-tools.ts";
import { addressBlock } from "./address-block.ts";
import { builtPrograms } from "./built-package.ts";

export interface StartCellOptions {
  name: string;
  start: "boot" | "wait";
  container?: Partial<ContainerSpec>;
  templateDigest?: string;
  keepsWaiting?: true;
  /** The size of the writable layer without a limit of the container. */
  layerBytes?: number;
  /** A command that executes the rest of its arguments, such as `unshare`. @default none */
  within?: readonly string[];
  /** Added to the cell's own environment. */
  environment?: Record<string, string>;
}

export interface RunningCell {
  address: CellAddress;
  process: ChildProcess;
  directory: string;
  identity: Identity;
  /** The environment with which it was started. */
  environment: NodeJS.ProcessEnv;
  /** The lines of the cell's own log. */
  logLines: string[];
}

/**
 * Runs real cells without a cluster. Each has its own namespaces (`ramet-link pod`) and loopback address, and all have one
 * key. It does not prove anything about controllers or nodes.
 */
export class CellRig {
  readonly directory: string;
  readonly client: CellClient;
  readonly #key = cellKeyFromPem(newCellKeyPem());
  readonly #secret = Buffer.alloc(32, 7);
  readonly #rootPath: string;
  readonly #tools: Record<"runsc" | "ramet-guest" | "ramet-link", string>;
  readonly #cells: RunningCell[] = [];
  #count = 0;

  private constructor(directory: string, rootPath: string, tools: CellRig["tools"]) {
    this.directory = directory;
    this.#rootPath = rootPath;
    this.#tools = tools;
    this.client = new CellClient(this.#key);
  }

  static async open(rootPath: string): Promise<CellRig> {
    const tools = await acquireTools({ names: ["runsc", "ramet-guest", "ramet-link"] });
    return new CellRig(await mkdtemp(join(tmpdir(), "ramet-")), rootPath, tools);
  }

  get tools(): Record<"runsc" | "ramet-guest" | "ramet-link", string> {
    return this.#tools;
  }

  async startCell(options: StartCellOptions): Promise<RunningCell> {
    const number = ++this.#count;
    const uid = `${options.name}-${number}-${process.pid}`;
    const directory = join(this.directory, `c${number}`);
    const ip = `127.66.${addressBlock()}.${number}`;
    await mkdir(directory, { recursive: true });
    const config: CellConfig = CellConfig.parse({
      v: 1,
      sandbox: { namespace: "test", name: options.name, uid },
      container: { name: "main", image: "python", ...options.container },
      rootPath: this.#rootPath,
      start: options.start,
      keepsWaiting: options.keepsWaiting,
      layerBytes: options.layerBytes,
      publicKey: this.#key.publicKey,
      templateDigest: options.templateDigest ?? `sha256:${"0".repeat(64)}`,
    });
    const environment = {
      PATH: process.env["PATH"],
      NODE_NO_WARNINGS: "1",
      RAMET_CELL: JSON.stringify(config),
      RAMET_CELL_LISTEN: ip,
      RAMET_CELL_DIRECTORY: directory,
      RAMET_RUNSC: this.#tools.runsc,
      RAMET_GUEST: this.#tools["ramet-guest"],
      RAMET_LINK: this.#tools["ramet-link"],
      ...options.environment,
    };
    const pod = [this.#tools["ramet-link"], "pod", "--"].concat(builtPrograms.cell);
    const [program = "", ...args] = (options.within ?? []).concat(pod);
    const child = spawn(program, args, {
      stdio: ["ignore", "pipe", "pipe"],
      env: environment,
    });
    const logLines: string[] = [];
    for (const stream of [child.stdout, child.stderr])
      stream.on("data", (chunk: Buffer) => logLines.push(...chunk.toString().trim().split("\n")));
    const cell: RunningCell = {
      address: { ip, sandboxUid: uid },
      process: child,
      directory,
      environment,
      logLines,
      identity: {
        sandboxId: `test--${options.name}`,
        hostname: options.name,
        accessToken: guestAccessToken(this.#secret, uid),
        environment: {},
      },
    };
    this.#cells.push(cell);
    await this.#listening(cell);
    return cell;
  }

  async close(): Promise<void> {
    for (const { process: child, directory } of this.#cells) {
      if (child.exitCode === null && child.signalCode === null) {
        child.kill("SIGKILL");
        await once(child, "exit");
      }
      await sweepCgroups(directory);
    }
    this.client.close();
    await rm(this.directory, { recursive: true, force: true });
  }

  async #listening({ address, process: child, logLines }: RunningCell): Promise<void> {
    for (;;) {
      if (child.exitCode !== null) throw new Error(`the cell ended before it listened: ${logLines.join("\n")}`);
      const state = await this.client.state(address).catch(() => undefined);
      if (state !== undefined) return;
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  }
}
