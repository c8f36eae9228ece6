import { EventEmitter, once } from "node:events";
import { createServer, type Server } from "node:http";
import { type AddressInfo, createServer as createTcpServer, connect } from "node:net";
import type { Duplex } from "node:stream";
import { afterEach, beforeEach, expect, it } from "vitest";
import type { CellState } from "../../api/wire/cell-api.ts";
import { RametError } from "../../base/errors.ts";
import { ManualClock } from "../../../test/setup/manual-clock.ts";
import { cellProver } from "../client/cell-proof.ts";
import { cellKeyFromPem, newCellKeyPem } from "../client/cell-token.ts";
import type { Cell } from "../lifecycle/cell.ts";
import type { DialOptions } from "../network/link-lines.ts";
import { cellServer } from "./server.ts";
import { TcpProbes } from "./tcp-probes.ts";
import { tokenVerifier } from "./token-verifier.ts";

const uid = "11111111-2222-4333-8444-555555555555";

/** Stands in for the cell. Its ports are ports of this machine, so it proves nothing about link. */
class StandInCell {
  state: CellState = { phase: "running", generation: 1, ready: true };
  readonly #changes = new EventEmitter();
  dials = 0;
  /** Whether dials hang until they are aborted, as those to a paused sandbox do. */
  hangs = false;

  onChange(listener: (state: CellState) => void): () => void {
    this.#changes.on("change", listener);
    return () => this.#changes.off("change", listener);
  }

  set(change: Partial<CellState>): void {
    this.state = { ...this.state, ...change };
    this.#changes.emit("change", this.state);
  }

  /** The capture has ended. */
  resume(): void {
    const { checkpointing: _, ...rest } = this.state;
    this.state = rest;
  }

  async dial(port: number, { signal }: DialOptions = {}): Promise<Duplex> {
    this.dials += 1;
    this.#changes.emit("dial");
    if (this.hangs && signal !== undefined) {
      await once(signal, "abort");
      throw new RametError("Canceled", `connecting to port ${port} of the sandbox was aborted`);
    }
    const socket = connect(port, "127.0.0.1");
    await once(socket, "connect").catch((cause: unknown) => {
      throw new RametError("Unavailable", `Nothing listens on port ${port} of the sandbox`, { cause });
    });
    return socket;
  }

  until(event: "dial"): Promise<unknown> {
    return once(this.#changes, event);
  }
}

let cell: StandInCell;
let clock: ManualClock;
let server: Server;
/** A port of the sandbox. */
let port: number;
const program = createTcpServer((socket) => void socket.on("error", () => undefined));

beforeEach(async () => {
  program.listen(0, "127.0.0.1");
  await once(program, "listening");
  port = (program.address() as AddressInfo).port;
  cell = new StandInCell();
  clock = new ManualClock();
  server = cellServer({
    cell: cell as unknown as Cell,
    verifier: tokenVerifier(cellKeyFromPem(newCellKeyPem()), uid),
    prover: cellProver(uid),
    tcpProbes: new TcpProbes({ cell, ports: [port], clock }),
    logPath: "/nonexistent",
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
});
afterEach(async () => {
  server.closeAllConnections();
  server.close();
  if (program.listening) await stopProgram();
});

it("succeeds while the program listens, and closes the connection", async () => {
  const connected = once(program, "connection") as Promise<[Duplex]>;
  expect(await probe()).toEqual({ status: 200, text: `port ${port} accepts connections\n` });
  const [inner] = await connected;
  await once(inner.resume(), "close");
  await stopProgram();
  expect(await probe()).toEqual({ status: 503, text: `Nothing listens on port ${port} of the sandbox\n` });
  expect((await probe("/live")).status).toBe(503);
});

it("connects to no other port for a caller without a token", async () => {
  const other = createServer().listen(0, "127.0.0.1");
  await once(other, "listening");
  const url = `${address()}/tcpz/${(other.address() as AddressInfo).port}`;
  expect((await fetch(url)).status).toBe(404);
  expect(cell.dials).toBe(0);
  other.close();
});

it("fails before the sandbox is open, without harm from a liveness probe", async () => {
  cell.set({ phase: "restoring", ready: false });
  expect(await probe()).toEqual({
    status: 503,
    text: `port ${port} cannot be probed: the sandbox is restoring\n`,
  });
  expect((await probe("/live")).status).toBe(200);
  expect(cell.dials).toBe(0);
});

it("keeps the last result during a capture", async () => {
  cell.set({ checkpointing: "first" });
  expect([(await probe()).status, (await probe("/live")).status]).toEqual([503, 200]);
  cell.resume();
  expect((await probe()).status).toBe(200);
  cell.hangs = true;
  const dialed = cell.until("dial");
  const during = probe();
  await dialed;
  // The capture pauses the sandbox while the connection is opened.
  cell.set({ checkpointing: "second" });
  expect((await during).status).toBe(200);
  expect((await probe()).status).toBe(200);
});

it("opens one connection for any number of callers, also if they leave", async () => {
  cell.hangs = true;
  const callers = Array.from({ length: 200 }, () => new AbortController());
  const dialed = cell.until("dial");
  const asked = callers.map(({ signal }) => probe("", signal).catch(() => "left"));
  await dialed;
  await expect.poll(openConnections).toBe(200);
  for (const caller of callers) caller.abort();
  expect(new Set(await Promise.all(asked))).toEqual(new Set(["left"]));
  await expect.poll(openConnections).toBe(0);
  // A connection that is open may not have sent its request yet, which would open another connection to the port.
  const requested = once(server, "request");
  const later = probe();
  await requested;
  cell.hangs = false;
  clock.advance(10_000);
  expect((await later).status).toBe(503);
  expect(cell.dials).toBe(1);
  expect((await probe()).status).toBe(200);
});

it("closes a connection that sends requests before it has an answer", async () => {
  cell.hangs = true;
  const socket = connect((server.address() as AddressInfo).port, "127.0.0.1").resume();
  socket.on("error", () => undefined).write(`GET /tcpz/${port} HTTP/1.1\r\nHost: cell\r\n\r\n`.repeat(2));
  await once(socket, "close");
  expect(cell.dials).toBe(1);
});

it("gives up after a time limit", async () => {
  cell.hangs = true;
  const dialed = cell.until("dial");
  const asked = probe();
  await dialed;
  clock.advance(10_000);
  expect(await asked).toEqual({
    status: 503,
    text: `Connecting to port ${port} of the sandbox timed out after 10 s\n`,
  });
});

async function probe(suffix = "", signal?: AbortSignal): Promise<{ status: number; text: string }> {
  const response = await fetch(`${address()}/tcpz/${port}${suffix}`, { signal: signal ?? null });
  return { status: response.status, text: await response.text() };
}

function openConnections(): Promise<number> {
  return new Promise((resolve) => {
    server.getConnections((_, count) => {
      resolve(count);
    });
  });
}

function address(): string {
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

async function stopProgram(): Promise<void> {
  program.close();
  await once(program, "close");
}
