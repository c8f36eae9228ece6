import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createConnection, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { cellPort, ContainerSpec } from "../../../src/api/cell/cell-api.ts";
import type { Contents } from "../../../src/api/schema/contents.ts";
import { cellBackend, type CellBackend } from "../../../src/backends/cell.ts";
import { cellCredentials, newCellCredentials } from "../../../src/backends/cell-credentials.ts";
import type { SandboxTarget } from "../../../src/backends/backend.ts";
import { CellClient } from "../../../src/cell/client/cell-client.ts";
import { directoryStore } from "../../../src/store/directory/store.ts";
import { storeAt } from "../../../src/store/store-at.ts";
import { startS3Server } from "../../setup/s3-server.ts";
import { ManualClock } from "../../setup/manual-clock.ts";
import { addressBlock } from "../../setup/address-block.ts";
import { testBackend } from "./backend-contract.ts";
import { StandInCell } from "./stand-in-cell.ts";

/** The cell backend with a real store and stand-in cells; test/cluster/controllers.test.ts has it with real ones. */
let root = "";
let backend: CellBackend;
const cells = new Map<string, StandInCell>();
const credentials = cellCredentials(newCellCredentials());

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "ramet-"));
  backend = cellBackend({ credentials, store: directoryStore({ root }) });
});
afterAll(async () => {
  backend.close();
  await Promise.all([...cells.values()].map((cell) => cell.close()));
  await rm(root, { recursive: true, force: true });
});

async function newCell(start: "boot" | "wait"): Promise<SandboxTarget> {
  const number = cells.size + 1;
  const target = { sandboxUid: `uid-${number}`, ip: `127.68.${addressBlock()}.${number}` };
  const config = {
    sandbox: { namespace: "contract", name: `s${number}`, uid: target.sandboxUid },
    container: ContainerSpec.parse({ name: "main", image: "python" }),
    publicKey: credentials.publicKey,
    templateDigest: `sha256:${"0".repeat(64)}`,
    start,
  };
  const cell = new StandInCell(config, target.ip);
  await cell.listen();
  cells.set(target.sandboxUid, cell);
  return target;
}

testBackend(() => ({
  backend,
  source: async () => {
    const target = await newCell("boot");
    await backend.boot(target, { sandboxId: "contract--s", hostname: "s", accessToken: "t", environment: {} });
    return target;
  },
  target: () => newCell("wait"),
  isRunning: ({ sandboxUid }) => Promise.resolve(cells.get(sandboxUid)?.state.ready ?? false),
}));

/** Takes connections and says nothing, as a process does that was stopped. */
async function silentCell(): Promise<{ target: SandboxTarget; open: () => number; close: () => void }> {
  const target = { sandboxUid: "uid-silent", ip: `127.69.${addressBlock()}.1` };
  const connections = new Set<Socket>();
  const server = createServer((socket) => {
    connections.add(
      socket
        .on("error", () => undefined)
        .on("close", () => connections.delete(socket))
        .resume(),
    );
  });
  server.listen(cellPort, target.ip);
  await once(server, "listening");
  return { target, open: () => connections.size, close: () => server.close() };
}

test("a cell that takes a call and is silent fails it after its time, and is called no longer", async () => {
  const clock = new ManualClock();
  const own = cellBackend({ credentials, store: directoryStore({ root }), clock });
  const server = await startS3Server();
  Object.assign(process.env, server.environment);
  const afar = await storeAt({ driver: "s3", bucket: await server.makeBucket(), endpoint: server.endpoint });
  const remote = cellBackend({ credentials, store: afar, clock });
  const { target, open, close } = await silentCell();
  const identity = anyIdentity;
  const handle = { namespace: "contract", checkpointId: "silent-1" };
  const contents: Contents = ["memory", "filesystem"];
  const manifestDigest = `sha256:${"0".repeat(64)}`;
  const calls = [
    { seconds: 60, call: () => own.boot(target, identity) },
    { seconds: 60, call: () => own.clone({ handle, manifestDigest, contents, target, identity }) },
    { seconds: 600, call: () => remote.clone({ handle, manifestDigest, contents, target, identity }) },
    { seconds: 600, call: () => own.cut({ source: target, handle, contents, keepRunning: true }) },
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
  own.close();
  remote.close();
  await server.stop();
});

test("a cell that does not even take the connection is Unavailable within seconds, to be tried again", async () => {
  const ip = `127.69.${addressBlock()}.2`;
  const script = `require("net").createServer().listen({ port: ${cellPort}, host: "${ip}", backlog: 1 }, () => console.log("listens"))`;
  const child = spawn(process.execPath, ["-e", script], { stdio: ["ignore", "pipe", "inherit"] });
  await once(child.stdout, "data");
  child.kill("SIGSTOP");
  const fillers = Array.from({ length: 4 }, () => createConnection(cellPort, ip).on("error", () => undefined));
  await once(fillers[1]!, "connect");
  const cells = new CellClient(credentials.key);
  await expect(cells.boot({ ip, sandboxUid: "uid-full" }, { identity: anyIdentity })).rejects.toMatchObject({
    code: "Unavailable",
    retryable: true,
    message: `cannot reach the cell at ${ip}: no connection within 2 s`,
  });
  for (const filler of fillers) filler.destroy();
  cells.close();
  child.kill("SIGKILL");
});

const anyIdentity = { sandboxId: "contract--s", hostname: "s", accessToken: "t", environment: {} };
