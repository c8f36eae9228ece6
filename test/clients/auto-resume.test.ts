import { connect as connectHttp2 } from "node:http2";
import { setTimeout as delay } from "node:timers/promises";
import { Sandbox } from "e2b";
import { request, WebSocket } from "undici";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Sandbox as SandboxObject, sandboxKind } from "../../src/api/kinds/sandbox.ts";
import { type RunningGateway, startGateway } from "../setup/gateway.ts";
import { ClientWorld } from "./client-world.ts";

/** Sandboxes that traffic resumes, over a real local cluster with two gateways. */
let world: ClientWorld;
let options: Awaited<ReturnType<ClientWorld["connection"]>>;
let second: RunningGateway;

beforeAll(async () => {
  world = await ClientWorld.open();
  options = await world.connection();
  second = await startGateway(world.client, { clientApi: new URL(world.apiUrl) });
});
afterAll(async () => {
  second.end();
  await second.ended;
  await world.close();
});

const lifecycle = { onTimeout: "pause", autoResume: true } as const;
const create = (more: object = {}) => Sandbox.create("base", { ...options, lifecycle, ...more });
const through = (port: number) => ({ ...options, sandboxUrl: `http://127.0.0.1:${port}` });

/** The ids contain the UID without dashes. */
async function objectOf({ sandboxId }: Sandbox): Promise<SandboxObject> {
  const sandboxes = world.client.of(sandboxKind);
  const { items } = await sandboxes.list({ namespace: "default" });
  const found = items.find(({ metadata }) => metadata.uid.replaceAll("-", "") === sandboxId);
  if (found === undefined) throw new Error(`There is no sandbox ${sandboxId}`);
  return found;
}

const stateOf = async (sandbox: Sandbox) => (await sandbox.getInfo()).state;

/** Counts the requests to its port in its memory, and echoes over WebSocket at /ws. */
const program = `
import base64, hashlib, http.server, threading
count = [0]
lock = threading.Lock()
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        left = int(self.headers["content-length"])
        while left > 0: left -= len(self.rfile.read(min(left, 65536)))
        self.do_GET()
    def do_GET(self):
        if self.path == "/ws":
            key = self.headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
            self.send_response(101); self.send_header("upgrade", "websocket"); self.send_header("connection", "upgrade")
            self.send_header("sec-websocket-accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
            self.end_headers(); self.wfile.write(b"\\x81\\x05hello"); self.close_connection = True
            return
        with lock: count[0] += 1
        body = str(count[0]).encode()
        self.send_response(200); self.send_header("content-length", str(len(body))); self.end_headers()
        self.wfile.write(body)
http.server.ThreadingHTTPServer(("0.0.0.0", 8000), Handler).serve_forever()
`;

async function serving(more: object = {}): Promise<Sandbox> {
  const sandbox = await create(more);
  await sandbox.files.write("/home/user/server.py", program);
  await sandbox.commands.run("python3 /home/user/server.py", { background: true });
  const token = sandbox.trafficAccessToken;
  await expect
    .poll(async () => (await ask(sandbox, token === undefined ? {} : { headers: { [trafficHeader]: token } })).status)
    .toBe(200);
  return sandbox;
}

const trafficHeader = "e2b-traffic-access-token";

interface Question {
  port?: number;
  gateway?: string;
  path?: string;
  headers?: Record<string, string>;
  method?: "GET" | "POST";
  body?: Buffer;
}

async function ask({ sandboxId }: Sandbox, question: Question = {}) {
  const { port = 8000, gateway = options.sandboxUrl, path = "/", headers, method = "GET", body } = question;
  const answer = await request(`${gateway}${path}`, {
    method,
    headers: { "e2b-sandbox-id": sandboxId, "e2b-sandbox-port": String(port), ...headers },
    ...(body !== undefined && { body }),
  });
  return { status: answer.statusCode, text: await answer.body.text() };
}

describe("a paused sandbox with autoResume", () => {
  it("is resumed with its memory by each kind of call, again and again", async () => {
    const sandbox = await serving();
    await sandbox.files.write("/home/user/a", "text");
    const before = Number((await ask(sandbox)).text);
    // Users can write the annotation, but strangers cannot have a sandbox paused and resumed every second.
    const { namespace, name } = (await objectOf(sandbox)).metadata;
    const metadata = { annotations: { "ramet.dev/auto-resume": "1s" } };
    await world.client.of(sandboxKind).mergePatch({ namespace, name }, { metadata });
    const calls = [
      () => sandbox.files.read("/home/user/a"),
      async () => (await sandbox.commands.run("cat /home/user/a")).stdout,
      async () => ((await ask(sandbox)).text === String(before + 1) ? "text" : "lost"),
    ];
    for (const call of calls) {
      await sandbox.pause();
      expect(await stateOf(sandbox)).toBe("paused");
      expect(await call()).toBe("text");
      expect(await stateOf(sandbox)).toBe("running");
      expect((await objectOf(sandbox)).spec.pauseTime).toBeDefined();
    }
    const left = (await sandbox.getInfo()).endAt.getTime() - Date.now();
    expect(left).toBeGreaterThan(240_000);
    expect(left).toBeLessThanOrEqual(300_000);
    await sandbox.kill();
  });

  it("is resumed once for the concurrent requests of all gateways", async () => {
    const sandbox = await serving();
    const count = Number((await ask(sandbox)).text);
    await sandbox.pause();
    const { generation } = (await objectOf(sandbox)).metadata;
    const other = `http://127.0.0.1:${second.port}`;
    const answers = await Promise.all(
      Array.from({ length: 40 }, (_, at) => ask(sandbox, at % 2 === 0 ? {} : { gateway: other })),
    );
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200));
    expect(Math.max(...answers.map(({ text }) => Number(text)))).toBe(count + 40);
    // One change of the spec.
    expect((await objectOf(sandbox)).metadata.generation).toBe((generation ?? 0) + 1);
    await sandbox.kill();
  });

  it("is resumed by a WebSocket, by HTTP/2 and by an upload, whose body waits", async () => {
    const sandbox = await serving();
    await sandbox.pause();
    const url = `${options.sandboxUrl.replace("http:", "ws:")}/ws`;
    const headers = { "e2b-sandbox-id": sandbox.sandboxId, "e2b-sandbox-port": "8000" };
    const socket = new WebSocket(url, { headers });
    const message = await new Promise((resolve, reject) => {
      socket.addEventListener("message", ({ data }) => {
        resolve(data);
      });
      socket.addEventListener("error", reject);
    });
    expect(message).toBe("hello");

    await sandbox.pause();
    const session = connectHttp2(options.sandboxUrl);
    const stream = session.request({ ":path": "/", ...headers });
    const status = await new Promise((resolve, reject) => {
      stream.once("response", ({ ":status": code }) => {
        resolve(code);
      });
      stream.once("error", reject);
    });
    session.destroy();
    expect(status).toBe(200);

    await sandbox.pause();
    const answer = await ask(sandbox, { method: "POST", body: Buffer.alloc(8 * 2 ** 20) });
    expect(answer.status).toBe(200);
    await sandbox.kill();
  });

  it("is resumed by a request that arrives while it is being paused", async () => {
    const sandbox = await serving();
    await sandbox.files.write("/home/user/a", "text");
    const paused = sandbox.pause();
    await expect.poll(async () => (await objectOf(sandbox)).spec.paused).toBe(true);
    expect(await sandbox.files.read("/home/user/a")).toBe("text");
    await paused;
    expect(await stateOf(sandbox)).toBe("running");
    await sandbox.kill();
  });

  it("is paused again when its time is over, and resumed again", async () => {
    const sandbox = await serving();
    for (const _ of [1, 2]) {
      await sandbox.setTimeout(1_000);
      await expect.poll(() => stateOf(sandbox)).toBe("paused");
      expect((await ask(sandbox)).status).toBe(200);
      expect(await sandbox.getInfo()).toMatchObject({ state: "running", lifecycle });
    }
    await sandbox.kill();
    expect((await ask(sandbox)).status).toBe(502);
  });

  it("is not resumed by the question whether it runs, which the SDK also asks when a stream breaks", async () => {
    const sandbox = await create();
    const command = await sandbox.commands.run("sleep 1000", { background: true });
    await sandbox.pause();
    // The SDK asks before it reports the error.
    await expect(command.wait()).rejects.toThrow();
    expect(await sandbox.isRunning()).toBe(false);
    expect(await stateOf(sandbox)).toBe("paused");
    await sandbox.commands.run("true");
    expect(await sandbox.isRunning()).toBe(true);
    await sandbox.kill();
  });

  it("is not resumed by a client that could not reach the port", async () => {
    const sandbox = await serving({ network: { allowPublicTraffic: false } });
    await sandbox.pause();
    const wrong = { [trafficHeader]: "wrong", "x-access-token": "wrong" };
    const refused: [Question, number][] = [
      [{}, 403],
      [{ headers: wrong }, 403],
      [{ port: 49_983, path: "/files?path=/home/user/a" }, 401],
      [{ port: 49_983, path: "/files?path=/home/user/a", headers: wrong }, 401],
      [{ port: 49_983, path: "/health" }, 502],
      [{ port: 49_999, path: "/execute", headers: wrong }, 401],
      [{ port: 49_981, path: "/logs" }, 401],
    ];
    for (const [question, status] of refused)
      expect([question, (await ask(sandbox, question)).status]).toEqual([question, status]);
    expect(await stateOf(sandbox)).toBe("paused");
    const right = { [trafficHeader]: sandbox.trafficAccessToken ?? "" };
    expect((await ask(sandbox, { headers: right })).status).toBe(200);
    await sandbox.kill();
  });

  it("is not resumed after a pause without its memory, until a client connects", async () => {
    const sandbox = await create();
    await sandbox.files.write("/home/user/a", "text");
    await sandbox.pause({ keepMemory: false });
    expect((await ask(sandbox)).status).toBe(403);
    await expect(sandbox.files.read("/home/user/a")).rejects.toThrow("paused without its memory");
    await sandbox.connect();
    expect(await sandbox.files.read("/home/user/a")).toBe("text");
    await sandbox.pause();
    expect(await sandbox.files.read("/home/user/a")).toBe("text");
    await sandbox.kill();
  });
});

describe("other sandboxes", () => {
  it("stay paused, and answer 502 as the SDKs expect", async () => {
    const sandbox = await create({ lifecycle: { onTimeout: "pause", autoResume: false } });
    await sandbox.pause();
    expect(await sandbox.isRunning()).toBe(false);
    expect((await ask(sandbox)).status).toBe(502);
    await expect(sandbox.commands.run("true")).rejects.toThrow();
    expect(await stateOf(sandbox)).toBe("paused");
    await sandbox.kill();
  });

  it("answer as soon as the client API says that they exist or are resumed, through every gateway", async () => {
    for (let round = 0; round < 5; round++) {
      const sandbox = await Sandbox.create("base", through(second.port));
      expect((await sandbox.commands.run("echo 1")).stdout).toBe("1\n");
      await sandbox.pause();
      await sandbox.connect();
      expect(await sandbox.isRunning()).toBe(true);
      await sandbox.kill();
    }
  });
});

describe("the route for gateways", () => {
  it("refuses everyone without the proof of a gateway", async () => {
    const sandbox = await create();
    await sandbox.pause();
    const { uid } = (await objectOf(sandbox)).metadata;
    const seconds = Math.floor(Date.now() / 1000);
    const proofs = ["", "1.1", `${seconds}.${"A".repeat(43)}`, options.apiKey, sandbox.trafficAccessToken ?? ""];
    for (const proof of proofs) {
      const headers = { "ramet-resume-proof": proof, "x-api-key": options.apiKey };
      for (const origin of [options.apiUrl, options.sandboxUrl]) {
        const { statusCode, body } = await request(`${origin}/internal/sandboxes/${uid}/resume`, {
          method: "POST",
          headers,
        });
        await body.dump();
        expect(statusCode).toBe(401);
      }
    }
    await delay(100);
    expect(await stateOf(sandbox)).toBe("paused");
    await sandbox.kill();
  });
});
