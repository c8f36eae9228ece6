import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createConnection, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { cellPort, ContainerSpec } from "../../../src/api/wire/cell-api.ts";
import type { CheckpointPart } from "../../../src/api/kinds/checkpoint.ts";
import type { Contents } from "../../../src/api/schema/metadata.ts";
import type { Backend } from "../../../src/backends/backend.ts";
import { cellBackend } from "../../../src/backends/cell-backend.ts";
import { cellRuntime } from "../../../src/backends/cell-runtime.ts";
import { cellCredentials, newCellCredentials } from "../../../src/backends/cluster-keys.ts";
import type { SandboxRef } from "../../../src/backends/runtime.ts";
import { RametError } from "../../../src/base/errors.ts";
import { CellClient } from "../../../src/cell/client/cell-client.ts";
import { directoryStore } from "../../../src/store/directory/store.ts";
import { storeAt } from "../../../src/store/store-at.ts";
import { startS3Server } from "../../setup/s3-server.ts";
import { ManualClock } from "../../setup/manual-clock.ts";
import { addressBlock } from "../../setup/address-block.ts";
import { testBackend } from "./backend-contract.ts";
import { StandInCell } from "./stand-in-cell.ts";

/** Uses a real store and stand-in cells; test/cluster/controllers.test.ts uses real cells. */
let root = "";
let backend: Backend;
const standIns = new Map<string, StandInCell>();
const credentials = cellCredentials(newCellCredentials());
const cells = new CellClient(credentials.key);
/** These cells run without a cluster. */
const findPod = () => Promise.resolve(undefined);
const runtime = cellRuntime({ cells, credentials, findPod });

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "ramet-"));
  backend = cellBackend({ cells, credentials, store: directoryStore({ root }) });
});
afterAll(async () => {
  cells.close();
  await Promise.all([...standIns.values()].map((cell) => cell.close()));
  await rm(root, { recursive: true, force: true });
});

function newRef(name: string, podIp: string): SandboxRef {
  return { namespace: "contract", name, uid: `uid-${name}`, podIp, claims: [] };
}

async function newCell(start: "boot" | "wait"): Promise<SandboxRef> {
  const number = standIns.size + 1;
  const target = newRef(`s${number}`, `127.68.${addressBlock()}.${number}`);
  const config = {
    sandbox: { namespace: "contract", name: target.name, uid: target.uid },
    container: ContainerSpec.parse({ name: "main", image: "python" }),
    publicKey: credentials.publicKey,
    templateDigest: `sha256:${"0".repeat(64)}`,
    start,
  };
  const cell = new StandInCell(config, target.podIp);
  await cell.listen();
  standIns.set(target.uid, cell);
  return target;
}

const standIn = ({ uid }: SandboxRef): StandInCell => standIns.get(uid)!;
async function booted(): Promise<SandboxRef> {
  const target = await newCell("boot");
  await runtime.boot(target, {});
  return target;
}

testBackend(() => ({
  backend,
  source: booted,
  target: () => newCell("wait"),
  unreachable: async () => ({ ...(await booted()), podIp: "127.255.255.253" }),
  isRunning: (sandbox) => Promise.resolve(standIn(sandbox).state.ready),
  write: (sandbox, text) => {
    standIn(sandbox).content = text;
    return Promise.resolve();
  },
  read: (sandbox) => Promise.resolve(standIn(sandbox).content),
  hold: (sandbox) => {
    const cell = standIn(sandbox);
    const gate = Promise.withResolvers<undefined>();
    cell.behaviour.captureGate = gate.promise;
    return {
      started: () => expect.poll(() => cell.state.checkpointing, { timeout: 10_000 }).toBeDefined(),
      release: () => {
        gate.resolve(undefined);
      },
    };
  },
  breakCapture: (sandbox) => {
    standIn(sandbox).behaviour.captureError = new RametError("EngineFailed", "runsc failed");
    return Promise.resolve();
  },
}));

/** Accepts connections and never responds, as a stopped process does. */
async function silentCell(): Promise<{ target: SandboxRef; open: () => number; close: () => void }> {
  const target = newRef("silent", `127.69.${addressBlock()}.1`);
  const connections = new Set<Socket>();
  const server = createServer((socket) => {
    connections.add(
      socket
        .on("error", () => undefined)
        .on("close", () => connections.delete(socket))
        .resume(),
    );
  });
  server.listen(cellPort, target.podIp);
  await once(server, "listening");
  return { target, open: () => connections.size, close: () => server.close() };
}

it("stops calling a cell that does not respond in time", async () => {
  const clock = new ManualClock();
  const ownCells = new CellClient(credentials.key);
  const parts = { cells: ownCells, credentials, findPod, clock };
  const local = cellBackend({ ...parts, store: directoryStore({ root }) });
  const server = await startS3Server();
  Object.assign(process.env, server.environment);
  const bucket = await storeAt({ driver: "s3", bucket: await server.makeBucket(), endpoint: server.endpoint });
  const remote = cellBackend({ ...parts, store: bucket });
  const { target, open, close } = await silentCell();
  const name = { namespace: "contract", checkpointId: "silent-1" };
  const contents: Contents = ["memory", "filesystem"];
  const part: CheckpointPart = {
    backend: "cell",
    handle: `sha256:${"0".repeat(64)}`,
    contents,
    cutAt: new Date().toISOString(),
    sizeBytes: 1,
    consistency: "atomic",
  };
  const clone = { name, part, target, environment: {} };
  const calls = [
    { seconds: 60, call: () => cellRuntime(parts).boot(target, {}) },
    { seconds: 60, call: () => local.clone(clone) },
    { seconds: 600, call: () => remote.clone(clone) },
    { seconds: 600, call: () => local.capture({ source: target, name, contents, keepRunning: true }) },
  ];
  for (const { seconds, call } of calls) {
    const outcome = call().catch((error: unknown) => error);
    await expect.poll(open).toBe(1);
    clock.advance(seconds * 1000 - 1);
    expect(clock.waits).toEqual([1]);
    clock.advance(1);
    expect(await outcome).toMatchObject({
      code: "Timeout",
      message: expect.stringContaining(`timed out after ${seconds} s`) as string,
      hint: expect.stringMatching(/./) as string,
    });
    await expect.poll(open).toBe(0);
  }
  close();
  ownCells.close();
  await server.stop();
});

it("does not capture again when a cell rejects a capture with a limit", async () => {
  const source = await booted();
  const cell = standIn(source);
  cell.behaviour.captureError = new RametError("InvalidArgument", "cannot publish file: it is not a regular file");
  const name = { namespace: "contract", checkpointId: "limited-1" };
  const contents: Contents = ["memory", "filesystem"];
  const capture = backend.capture({ source, name, contents, keepRunning: true, maxBytes: 1_000 });
  await expect(capture).rejects.toMatchObject({ code: "InvalidArgument" });
  expect(cell.calls.filter((operation) => operation === "checkpoint")).toHaveLength(1);
  expect(await backend.has?.(name)).toBe(false);
});

it("throws a retryable Unavailable within seconds for a cell that does not accept the connection", async () => {
  const ip = `127.69.${addressBlock()}.2`;
  const script = `require("net").createServer().listen({ port: ${cellPort}, host: "${ip}", backlog: 1 }, () => console.log("listens"))`;
  const child = spawn(process.execPath, ["-e", script], { stdio: ["ignore", "pipe", "inherit"] });
  await once(child.stdout, "data");
  child.kill("SIGSTOP");
  const fillers = Array.from({ length: 4 }, () => createConnection(cellPort, ip).on("error", () => undefined));
  await once(fillers[1]!, "connect");
  await expect(cells.boot({ ip, sandboxUid: "uid-full" }, { identity: anyIdentity })).rejects.toMatchObject({
    code: "Unavailable",
    retryable: true,
    message: `cannot reach the cell at ${ip}: no connection within 2 s`,
  });
  for (const filler of fillers) filler.destroy();
  child.kill("SIGKILL");
});

const anyIdentity = { sandboxId: "contract--s", hostname: "s", accessToken: "t", environment: {} };
