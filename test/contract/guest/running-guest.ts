import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { connect, type Socket } from "node:net";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { GuestClient } from "../../../src/cell/client/guest-client.ts";
import { GuestControl, type GuestInit } from "../../../src/cell/client/guest-control.ts";
import { acquireTools } from "../../../src/local/tools/acquire-tools.ts";
import { freePort } from "../../../src/local/control-plane/free-port.ts";

/**
 * The real guest as an ordinary process on loopback addresses. It does not prove what gVisor does at a restore; the
 * cell's contract tests do.
 */
export class RunningGuest implements AsyncDisposable {
  readonly directory: string;
  readonly control: GuestControl;
  readonly #process: ChildProcess;
  readonly #clientPort: number;

  private constructor(directory: string, process: ChildProcess, ports: { control: number; client: number }) {
    this.directory = directory;
    this.#process = process;
    this.#clientPort = ports.client;
    this.control = new GuestControl(() => dialLoopback(ports.control));
  }

  static async start(...entrypoint: string[]): Promise<RunningGuest> {
    const { "ramet-guest": program } = await acquireTools({ names: ["ramet-guest"] });
    const directory = await mkdtemp(join(tmpdir(), "ramet-guest-"));
    const ports = { control: await freePort(), client: await freePort() };
    const flags = {
      listen: "127.0.0.1",
      "control-peer": "127.0.0.1",
      "control-port": `${ports.control}`,
      "client-port": `${ports.client}`,
      cwd: directory,
      "hook-dir": join(directory, "hooks"),
      "state-dir": join(directory, "state"),
    };
    const options = Object.entries(flags).flatMap(([name, value]) => [`--${name}`, value]);
    const child = spawn(program, [...options, "--", ...entrypoint], { stdio: "ignore" });
    const guest = new RunningGuest(directory, child, ports);
    while (!(await guest.#answers())) await sleep(5);
    return guest;
  }

  client(accessToken = "token", user?: string): GuestClient {
    const dial = (): Promise<Socket> => dialLoopback(this.#clientPort);
    return new GuestClient({ dial, accessToken, ...(user !== undefined && { user }) });
  }

  /** The identity of a first start, with what differs. */
  identity(differing: Partial<GuestInit> = {}): GuestInit {
    return {
      sandboxId: "one",
      hostname: hostname(),
      accessToken: "token",
      environment: {},
      generation: 1,
      clone: false,
      now: new Date().toISOString(),
      hookTimeoutMilliseconds: 2000,
      ...differing,
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#process.exitCode === null && this.#process.signalCode === null) {
      const ended = once(this.#process, "exit");
      this.#process.kill("SIGKILL");
      await ended;
    }
    await rm(this.directory, { recursive: true });
  }

  async #answers(): Promise<boolean> {
    if (this.#process.exitCode !== null) throw new Error(`the guest ended with ${this.#process.exitCode}`);
    return this.control.health().then(
      () => true,
      () => false,
    );
  }
}

async function dialLoopback(port: number): Promise<Socket> {
  const socket = connect(port, "127.0.0.1");
  await once(socket, "connect");
  return socket;
}
