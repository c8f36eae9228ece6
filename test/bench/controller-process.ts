import { mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { systemClock } from "../../src/base/clock.ts";
import { type Child, startChild, waitUntilReady } from "../../src/local/control-plane/child.ts";
import { freePort } from "../setup/free-port.ts";

const ramet = fileURLToPath(new URL("../../bin/ramet.mjs", import.meta.url));
/** Linux counts a process's CPU time in this unit on all of Node's platforms. */
const ticksPerSecond = 100;

export interface ControllerProcessOptions {
  /** @default 30000 */
  timeoutMilliseconds?: number;
  cellImage?: string;
  /** Further arguments. */
  more?: readonly string[];
}

/** `ramet controller` in its own process, so that its resource usage can be measured. */
export class ControllerProcess {
  readonly #child: Child;

  private constructor(child: Child) {
    this.#child = child;
  }

  /** Resolves when its controllers work. It installs the CRDs. @param directory of its store and its log */
  static async start(
    kubeconfigPath: string,
    directory: string,
    signal: AbortSignal,
    { timeoutMilliseconds = 30_000, cellImage = "ramet.dev/cell:bench", more = [] }: ControllerProcessOptions = {},
  ): Promise<ControllerProcess> {
    const store = join(directory, "store");
    await mkdir(store, { recursive: true });
    const port = await freePort();
    const child = await startChild({
      program: process.execPath,
      args: [
        ramet,
        "controller",
        "--kubeconfig",
        kubeconfigPath,
        "--store-directory",
        store,
        // As on a local cluster, whose figures are compared.
        "--no-verify-restores",
        "--install-crds",
        "--cell-image",
        cellImage,
        "--metrics-port",
        `${port}`,
        ...more,
      ],
      cwd: directory,
      logPath: join(directory, "controller.log"),
      clock: systemClock,
    });
    const ready = (): Promise<boolean> =>
      fetch(`http://127.0.0.1:${port}/readyz`).then(
        ({ status }) => status === 200,
        () => false,
      );
    try {
      const clock = systemClock;
      await waitUntilReady(child, { what: "the controller", clock, timeoutMilliseconds, signal, ready });
    } catch (error) {
      await child.stop();
      throw error;
    }
    return new ControllerProcess(child);
  }

  get pid(): number {
    return this.#child.pid;
  }

  /** User and system, since its start. */
  async cpuSeconds(): Promise<number> {
    const stat = await readFile(`/proc/${this.pid}/stat`, "utf8");
    // The name in parentheses may contain spaces. After it, user time is the 12th field and system time the 13th.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return (Number(fields[11]) + Number(fields[12])) / ticksPerSecond;
  }

  residentMiB(): Promise<number> {
    return this.#statusMiB("VmRSS");
  }

  /** Peak resident memory since its start. */
  peakMiB(): Promise<number> {
    return this.#statusMiB("VmHWM");
  }

  stop(): Promise<void> {
    return this.#child.stop();
  }

  /** Sends SIGKILL. */
  kill(): Promise<void> {
    return this.#child.kill();
  }

  async #statusMiB(field: string): Promise<number> {
    const status = await readFile(`/proc/${this.pid}/status`, "utf8");
    return Number(new RegExp(`^${field}:\\s+(\\d+)`, "m").exec(status)?.[1]) / 1024;
  }
}
