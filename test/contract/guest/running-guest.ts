import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { connect, type Socket } from "node:net";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { guestClientPort, guestControlPort } from "../../../src/api/wire/cell-api.ts";
import { GuestClient } from "../../../src/cell/client/guest-client.ts";
import { GuestControl, type GuestInit } from "../../../src/cell/client/guest-control.ts";
import { acquireTools } from "../../../src/local/tools/acquire-tools.ts";
import { addressBlock } from "../../setup/address-block.ts";

/**
 * The real guest as an ordinary process on loopback addresses. It does not prove what gVisor does at a restore; the
 * cell's contract tests do.
 */
export class RunningGuest implements AsyncDisposable {
  static #count = 0;
  readonly directory: string;
  readonly control: GuestControl;
  readonly #process: ChildProcess;
  readonly address: string;

  private constructor(directory: string, process: ChildProcess, address: string) {
    this.directory = directory;
    this.#process = process;
    this.address = address;
    this.control = new GuestControl(() => dial(address, guestControlPort));
  }

  static async start(...entrypoint: string[]): Promise<RunningGuest> {
    const { "ramet-guest": program } = await acquireTools({ names: ["ramet-guest"] });
    const directory = await mkdtemp(join(tmpdir(), "ramet-guest-"));
    // No other process uses a port of this address.
    const address = `127.70.${addressBlock()}.${++RunningGuest.#count}`;
    const flags = {
      listen: address,
      "control-peer": "127.0.0.1",
      "control-port": `${guestControlPort}`,
      "client-port": `${guestClientPort}`,
      cwd: directory,
      "hook-dir": join(directory, "hooks"),
      "state-dir": join(directory, "state"),
      "mark-dir": join(directory, "marks"),
    };
    const options = Object.entries(flags).flatMap(([name, value]) => [`--${name}`, value]);
    const child = spawn(program, [...options, "--", ...entrypoint], { stdio: "ignore" });
    const guest = new RunningGuest(directory, child, address);
    while (!(await guest.#answers())) await sleep(5);
    return guest;
  }

  client(accessToken = "token", user?: string): GuestClient {
    const toClientPort = (): Promise<Socket> => dial(this.address, guestClientPort);
    return new GuestClient({ dial: toClientPort, accessToken, ...(user !== undefined && { user }) });
  }

  /** Calls the client port with the token of `identity()`. */
  fetch(
    path: string,
    { headers, ...request }: Omit<RequestInit, "headers"> & { headers?: Record<string, string> } = {},
  ): Promise<Response> {
    const url = `http://${this.address}:${guestClientPort}${path}`;
    return fetch(url, { ...request, headers: { "x-access-token": "token", ...headers } });
  }

  /** Returns the identity of a first start, with changes. */
  identity(differing: Partial<GuestInit> = {}): GuestInit {
    return {
      sandboxId: "one",
      hostname: hostname(),
      accessToken: "token",
      environment: {},
      limits: {},
      generation: 1,
      clone: false,
      now: new Date().toISOString(),
      hookTimeoutMilliseconds: 20_000,
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

async function dial(address: string, port: number): Promise<Socket> {
  const socket = connect(port, address);
  await once(socket, "connect");
  return socket;
}
