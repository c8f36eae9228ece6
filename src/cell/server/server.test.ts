import { once } from "node:events";
import { type Server, createServer, type ServerResponse } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { PassThrough } from "node:stream";
import { afterEach, beforeEach, expect, it } from "vitest";
import { cellProver } from "../client/cell-proof.ts";
import { cellKeyFromPem, newCellKeyPem, signCellToken } from "../client/cell-token.ts";
import type { Cell } from "../lifecycle/cell.ts";
import { cellServer, OpenResponses } from "./server.ts";
import { tokenVerifier } from "./token-verifier.ts";

const key = cellKeyFromPem(newCellKeyPem());
const sandboxUid = "11111111-2222-4333-8444-555555555555";
/** Stands in for the cell: it proves nothing about sandboxes. */
const cell = {
  state: { phase: "running", generation: 1, ready: true },
  boot: () => Promise.resolve(cell.state),
  dial: () => Promise.resolve(new PassThrough()),
};
const mebibyte = 1024 * 1024;

let server: Server;
let sockets: Socket[];
let reported: unknown[];

beforeEach(async () => {
  sockets = [];
  reported = [];
  server = cellServer({
    cell: cell as unknown as Cell,
    verifier: tokenVerifier(key, sandboxUid),
    prover: cellProver(sandboxUid),
    logPath: "/nonexistent",
    report: (_, { fields }) => reported.push(fields),
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
});
afterEach(() => {
  for (const socket of sockets) socket.destroy();
  server.closeAllConnections();
  server.close();
});

it("rejects a call without a valid token before its body arrives", async () => {
  const head = `POST /v1/boot HTTP/1.1\r\nHost: x\r\nContent-Length: ${mebibyte}\r\n`;
  expect(await statusLine(`${head}\r\n`)).toContain(" 401 ");
  expect(await statusLine(`${head}Authorization: ${await token("state")}\r\n\r\n`)).toContain(" 403 ");
  const large = `POST /v1/boot HTTP/1.1\r\nHost: x\r\nContent-Length: ${mebibyte + 1}\r\n`;
  expect(await statusLine(`${large}Authorization: ${await token("boot")}\r\n\r\n`)).toContain(" 400 ");
});

it("rejects a body that the token was not signed for", async () => {
  const call = async (body: string, signed: string): Promise<string> => {
    const authorization = await token("boot", signed);
    return statusLine(
      `POST /v1/boot HTTP/1.1\r\nHost: x\r\nContent-Length: ${body.length}\r\nAuthorization: ${authorization}\r\n\r\n${body}`,
    );
  };
  const body = JSON.stringify({ identity: { sandboxId: "a--b", hostname: "b", accessToken: "t", environment: {} } });
  expect(await call(body, body)).toContain(" 200 ");
  expect(await call(body, `${body} `)).toContain(" 403 ");
});

it("ignores and logs unknown fields of a later controller, but not in a grant or a policy", async () => {
  const call = async (operation: string, body: object): Promise<string> => {
    const text = JSON.stringify(body);
    const head = `POST /v1/${operation} HTTP/1.1\r\nHost: x\r\nContent-Length: ${text.length}\r\n`;
    return statusLine(`${head}Authorization: ${await token(operation, text)}\r\n\r\n${text}`);
  };
  const identity = { sandboxId: "a--b", hostname: "b", accessToken: "t", environment: {}, locale: "C" };
  expect(await call("boot", { identity, priority: 1 })).toContain(" 200 ");
  expect(reported).toEqual([["identity.locale", "priority"]]);
  expect(await call("egress", { policy: { default: "deny", exceptAtNight: true } })).toContain(" 400 ");
  const grant = { driver: "directory", access: "read", namespace: "n", checkpointId: "c", expiresAt: 1, path: "/" };
  const restore = { identity, contents: ["memory", "filesystem"], grant: { ...grant, sealed: true } };
  expect(await call("restore", restore)).toContain(" 400 ");
});

it("answers a controller and the kubelet while strangers hold connections", async () => {
  const silent = Array.from({ length: 600 }, () => open(""));
  await expect.poll(() => silent.filter(({ closed }) => !closed).length).toBeLessThanOrEqual(256);
  expect(await statusLine("GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n")).toContain(" 200 ");
  const state = `GET /v1/state HTTP/1.1\r\nHost: x\r\nAuthorization: ${await token("state")}\r\n\r\n`;
  expect(await statusLine(state)).toContain(" 200 ");
});

it("keeps connections with a valid token when strangers arrive", async () => {
  const gateway = open(await tunnelRequest());
  const controller = open(`GET /v1/state HTTP/1.1\r\nHost: x\r\nAuthorization: ${await token("state")}\r\n\r\n`);
  await Promise.all([once(gateway, "data"), once(controller, "data")]);
  const silent = Array.from({ length: 600 }, () => open(""));
  await expect.poll(() => silent.filter(({ closed }) => !closed).length).toBeLessThanOrEqual(256);
  expect([gateway.closed, controller.closed]).toEqual([false, false]);
});

it("limits the connections to ports", async () => {
  const request = await tunnelRequest();
  const opened: Socket[] = [];
  while (opened.length < 2048) {
    // More at the same time would push each other out before the server has verified them.
    const some = Array.from({ length: 128 }, () => open(request));
    await Promise.all(some.map((socket) => once(socket, "data")));
    opened.push(...some);
  }
  expect(await statusLine(request)).toContain(" 503 ");
  opened[0]?.destroy();
  await expect.poll(() => statusLine(request)).toContain(" 101 ");
});

it("forgets connections that close while their token is verified", async () => {
  const verified = Promise.withResolvers<undefined>();
  const replaceKeys = () => undefined;
  const verifier = { replaceKeys, verify: () => verified.promise.then(() => ({ requireBody: () => undefined })) };
  const slow = cellServer({
    cell: cell as unknown as Cell,
    verifier,
    prover: cellProver(sandboxUid),
    logPath: "/nonexistent",
  });
  const { port } = await new Promise<AddressInfo>((resolve) => {
    slow.listen(0, "127.0.0.1", () => {
      resolve(slow.address() as AddressInfo);
    });
  });
  try {
    let closed = 0;
    slow.on("upgrade", (_, socket: Socket) => void socket.once("close", () => (closed += 1)));
    // Only the newest 256 of them stay open.
    for (let count = 0; count < 2400; count += 1) {
      const socket = connect(port, "127.0.0.1", () => void socket.write(upgradeOf("/v1/ports/80")));
      sockets.push(socket.on("error", () => undefined));
    }
    await expect.poll(() => closed).toBeGreaterThanOrEqual(2048);
    verified.resolve(undefined);
    const socket = connect(port, "127.0.0.1", () => void socket.write(upgradeOf("/v1/ports/80")));
    sockets.push(socket);
    expect(String((await once(socket, "data"))[0])).toContain(" 101 ");
  } finally {
    slow.closeAllConnections();
    slow.close();
  }
});

it.each([
  ["a path that is no URL", "GET // HTTP/1.1\r\nHost: x\r\n\r\n"],
  ["an unknown route", "GET /v2/state HTTP/1.1\r\nHost: x\r\n\r\n"],
  ["no HTTP", "\0\0\0\0\r\n\r\n"],
  ["an upgrade behind another request", `GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n${upgradeOf("/v1/ports/80")}`],
  ["an upgrade to an unknown path", upgradeOf("/v1/state")],
  ["an upgrade to another port number", upgradeOf("/v1/ports/99999")],
  [
    "contradictory lengths",
    "POST /v1/boot HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
  ],
  ["a bad chunk", "POST /v1/boot HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"],
  ["large headers", `GET /healthz HTTP/1.1\r\nHost: x\r\nX: ${"a".repeat(100_000)}\r\n\r\n`],
])("survives %s", async (_, request) => {
  const socket = open(request);
  socket.end();
  await once(socket, "close");
  expect(await statusLine("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")).toContain(" 200 ");
});

function upgradeOf(path: string): string {
  return `GET ${path} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n`;
}

async function tunnelRequest(): Promise<string> {
  return upgradeOf("/v1/ports/80").replace("\r\n\r\n", `\r\nAuthorization: ${await token("ports")}\r\n\r\n`);
}

async function token(operation: string, body?: string): Promise<string> {
  return `Bearer ${await signCellToken(key, { sandboxUid, operation, body })}`;
}

function open(request: string): Socket {
  const socket = connect((server.address() as AddressInfo).port, "127.0.0.1").on("error", () => undefined);
  sockets.push(socket);
  socket.resume().write(request);
  return socket;
}

async function statusLine(request: string): Promise<string> {
  const [chunk] = (await once(open(request), "data")) as [Buffer];
  return chunk.toString().split("\r\n")[0] ?? "";
}

it("waits for each response that has begun, also for one whose client leaves", async () => {
  const responses = new OpenResponses();
  const server = createServer().listen(0, "127.0.0.1");
  responses.follow(server);
  await once(server, "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const ask = async (signal?: AbortSignal) => {
    const asked = once(server, "request") as Promise<[unknown, ServerResponse]>;
    const answer = fetch(url, { signal: signal ?? null }).then(
      (response) => response.text(),
      () => "left",
    );
    const [, response] = await asked;
    return { answer, response };
  };
  await responses.finished();
  const client = new AbortController();
  const [first, second] = [await ask(), await ask(client.signal)];
  let isFinished = false;
  const finished = responses.finished().then(() => {
    isFinished = true;
  });
  first.response.end("sent");
  expect(await first.answer).toBe("sent");
  expect(isFinished).toBe(false);
  client.abort();
  expect(await second.answer).toBe("left");
  await finished;
  server.close();
  server.closeAllConnections();
});
