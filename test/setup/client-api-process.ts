import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { systemClock } from "../../src/base/clock.ts";
import { type Child, startChild, waitUntilReady } from "../../src/local/control-plane/child.ts";
import { freePort } from "./free-port.ts";

const ramet = fileURLToPath(new URL("../../bin/ramet.mjs", import.meta.url));

/** `ramet client-api` in its own process, which can be killed, and whose memory can be measured. */
export class ClientApiProcess {
  readonly #kubeconfigPath: string;
  readonly #directory: string;
  readonly #port: number;
  readonly #metricsPort: number;
  #child: Child | undefined;

  private constructor(kubeconfigPath: string, directory: string, [port, metricsPort]: readonly [number, number]) {
    this.#kubeconfigPath = kubeconfigPath;
    this.#directory = directory;
    this.#port = port;
    this.#metricsPort = metricsPort;
  }

  static async start(kubeconfigPath: string): Promise<ClientApiProcess> {
    const directory = await mkdtemp(join(tmpdir(), "ramet-client-api-"));
    const started = new ClientApiProcess(kubeconfigPath, directory, [await freePort(), await freePort()]);
    await started.start();
    return started;
  }

  /** Starts it again, at the same address. Resolves when it answers requests. */
  async start(): Promise<void> {
    const ports = ["--port", `${this.#port}`, "--metrics-port", `${this.#metricsPort}`];
    this.#child = await startChild({
      program: process.execPath,
      args: [ramet, "client-api", "--kubeconfig", this.#kubeconfigPath, ...ports],
      cwd: this.#directory,
      logPath: join(this.#directory, "log"),
      clock: systemClock,
    });
    await waitUntilReady(this.#child, {
      what: "the client API",
      clock: systemClock,
      timeoutMilliseconds: 30_000,
      ready: () => isReady(this.#metricsPort),
      signal: new AbortController().signal,
    });
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  get pid(): number {
    return this.#child?.pid ?? 0;
  }

  /** Sends SIGKILL. */
  async kill(): Promise<void> {
    await this.#child?.kill();
  }

  log(): Promise<string> {
    return readFile(join(this.#directory, "log"), "utf8");
  }

  async close(): Promise<void> {
    await this.#child?.stop();
    await rm(this.#directory, { recursive: true, force: true });
  }
}

async function isReady(port: number): Promise<boolean> {
  return fetch(`http://127.0.0.1:${port}/readyz`).then(
    ({ status }) => status === 200,
    () => false,
  );
}
