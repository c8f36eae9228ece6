import { generateKeyPairSync } from "node:crypto";
import { connect, type Socket } from "node:net";
import { SignJWT, decodeJwt, decodeProtectedHeader } from "jose";
import type { FloodName, FloodOrder, FloodTarget } from "./floods.ts";

/**
 * Sends one flood to a server, in a process of its own, so that the honest clients do not wait for it. The parent sends
 * "on", "count" and "off", and gets the number of attacks after the last two.
 */
interface Flood {
  /** Attacks per second. @default 100 */
  rate?: number;
  attack: () => void;
  /** How many connections the flood keeps. It is complete when it has them. */
  keeps?: number;
}

const { name, target } = JSON.parse(process.argv[2] ?? "{}") as { name: FloodName; target: FloodTarget };
/** All hostile clients have one address, and it is not that of the honest ones. */
const localAddress = "127.0.0.2";
const open = new Set<Socket>();

function dial(bytes?: string | Buffer): Socket {
  const socket = connect({ port: target.port, host: "127.0.0.1", localAddress });
  open.add(socket);
  socket.on("error", () => undefined).once("close", () => open.delete(socket));
  socket.resume();
  if (bytes !== undefined) socket.write(bytes);
  return socket;
}

/** Keeps this many connections open, and opens those again that the server closes. */
function keepOpen(keeps: number, bytes?: string): Flood {
  return { rate: 500, keeps, attack: () => dial(bytes) };
}

const head = (more: readonly string[], sandbox = "honest", port = target.honestPort): string =>
  [
    "GET / HTTP/1.1",
    "Host: gateway",
    `E2b-Sandbox-Id: ${target.namespace}--${sandbox}`,
    `E2b-Sandbox-Port: ${port}`,
    ...more,
    "",
    "",
  ].join("\r\n");

/** Requests on connections that are kept, as an attacker with an HTTP client sends them. */
function requests(connections: number, bytes: () => string): () => void {
  let turn = 0;
  return () => {
    if (open.size < connections) dial(bytes());
    else [...open][turn++ % connections]?.write(bytes());
  };
}

/** A request to the client API. */
const post = (path: string, key: string | undefined, more: readonly string[]): string =>
  [`POST ${path} HTTP/1.1`, "Host: server", ...(key === undefined ? [] : [`X-API-Key: ${key}`]), ...more, "", ""].join(
    "\r\n",
  );

const invoke = "/api/v1/sandboxes/private/invoke";
const mebibyte = 1 << 20;

const close = "Connection: close";
const upgrade = ["Connection: Upgrade", "Upgrade: websocket"];
let made = 0;

const floods: Record<FloodName, () => Promise<Flood> | Flood> = {
  "silent connections": () => keepOpen(2_000),
  "half requests": () => keepOpen(2_000, "GET / HTTP/1.1\r\nHost: x\r\nX-A: "),
  "upgraded connections": () => keepOpen(900, head(upgrade, "upgraded")),
  "endless answers": () => keepOpen(20, head([close], "endless")),
  "no HTTP": () => ({ attack: () => dial("\u0016\u0003\u0001\u0002\u0000\u0001\u0000\u0001") }),
  "pipelined upgrades": () => {
    const bytes = `GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n${head(upgrade)}`;
    return { attack: () => dial(bytes) };
  },
  "1,000 pipelined requests": () => {
    const bytes = head([]).repeat(1_000);
    return { rate: 10, attack: () => dial(bytes) };
  },
  "headers of 64 KiB": () => {
    const bytes = head([`X-A: ${"a".repeat(1 << 16)}`]);
    return { attack: () => dial(bytes) };
  },
  "bodies without a token": () => {
    const size = 1 << 20;
    const asked = head([`Content-Length: ${size}`, close], "private").replace("GET", "POST");
    const bytes = Buffer.concat([Buffer.from(asked), Buffer.alloc(size)]);
    return { rate: 20, attack: () => dial(bytes) };
  },
  "made-up tokens": () => ({
    attack: requests(32, () => head([`Ramet-Access-Token: made-up-${++made}`], "private")),
  }),
  "forged tokens": async () => {
    const forged = await forgedTokens();
    const next = (): string => forged[++made % forged.length] ?? "";
    return { attack: requests(32, () => head([`Ramet-Access-Token: ${next()}`], "private")) };
  },
  "bodies without a key": () => {
    const bytes = post("/sandboxes", undefined, [`Content-Length: ${mebibyte}`]) + "a".repeat(mebibyte);
    return { rate: 20, attack: () => dial(bytes) };
  },
  "made-up keys": () => ({
    attack: requests(32, () => {
      const digits = String(++made).padStart(48, "0");
      return post("/sandboxes", `e2b_${digits}`, ["Content-Length: 0"]);
    }),
  }),
  "held bodies": () => {
    const bytes = post(invoke, target.key, [`Content-Length: ${16 * mebibyte}`]) + "a".repeat(mebibyte);
    return { rate: 20, keeps: 200, attack: () => dial(bytes) };
  },
  "chunked bodies": () => {
    const chunk = `${mebibyte.toString(16)}\r\n${"a".repeat(mebibyte)}\r\n`;
    const bytes = post(invoke, target.key, ["Transfer-Encoding: chunked"]) + chunk;
    return { rate: 20, keeps: 200, attack: () => dial(bytes) };
  },
  "bodies of many objects": () => {
    const body = `{"metadata":[${"{},".repeat(340_000)}{}]}`;
    const bytes = post("/sandboxes", target.key, [`Content-Length: ${body.length}`]) + body;
    return { rate: 5, attack: () => dial(bytes) };
  },
  "hostile answers": () => ({ attack: () => dial(head([close], "hostile")) }),
};

/** Tokens with the header and the claims of a good one, signed with another key. */
async function forgedTokens(): Promise<string[]> {
  const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  const { kid = "" } = decodeProtectedHeader(target.token);
  const claims = decodeJwt(target.token);
  return Promise.all(
    Array.from({ length: 200 }, (_, jti) =>
      new SignJWT({ ...claims, jti: String(jti) }).setProtectedHeader({ alg: "RS256", kid }).sign(privateKey),
    ),
  );
}

async function main(): Promise<void> {
  const { rate = 100, attack, keeps = 0 } = await floods[name]();
  const tickMilliseconds = 20;
  let attacks = 0;
  let timer: NodeJS.Timeout | undefined;
  process.on("message", (order: FloodOrder) => {
    if (order === "on") {
      const startedAt = performance.now();
      let since = startedAt;
      let due = 0;
      let isComplete = false;
      timer = setInterval(() => {
        const now = performance.now();
        // A process that had to wait for a core does not catch up: that would be another flood.
        due += (rate * Math.min(now - since, 5 * tickMilliseconds)) / 1000;
        since = now;
        for (; due >= 1 && (keeps === 0 || open.size < keeps); due--, attacks++) attack();
        due %= 1;
        if (isComplete || (open.size < keeps && now < startedAt + 5_000)) return;
        isComplete = true;
        process.send?.("complete");
      }, tickMilliseconds);
    } else if (order === "off") {
      clearInterval(timer);
      for (const socket of open) socket.destroy();
    }
    if (order !== "on") process.send?.(attacks);
  });
  process.once("disconnect", () => process.exit(0));
  process.send?.("ready");
}

void main();
