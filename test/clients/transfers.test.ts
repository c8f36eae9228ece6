import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { Readable } from "node:stream";
import { buffer, text } from "node:stream/consumers";
import { pipeline } from "node:stream/promises";
import { Sandbox } from "e2b";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ClientWorld } from "./client-world.ts";
import { protocols, type SecureRequest, secureRequest } from "./secure-request.ts";

/** 100 MiB through the gateway, with a receiver that reads nothing for a while. */
const block = 1 << 20;
const blocks = 100;
/** More than the buffers of all sockets on the way, and much less than the content. */
const mostHeldBytes = 64 * block;

let world: ClientWorld;
let options: Awaited<ReturnType<ClientWorld["connection"]>>;
let sandbox: Sandbox;

beforeAll(async () => {
  world = await ClientWorld.open();
  options = await world.connection();
  sandbox = await Sandbox.create("base", options);
  await sandbox.files.write("/home/user/server.py", server);
  await sandbox.commands.run("exec python3 /home/user/server.py", { background: true });
  await sandbox.commands.run("until [ -e /home/user/ready ]; do sleep 0.05; done");
});
afterAll(() => world.close());

/** A program that receives a body only after the file /home/user/go exists, and that writes how much it has sent. */
const server = `
import hashlib, os, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_PUT(self):
        open("/home/user/asked", "w").close()
        while not os.path.exists("/home/user/go"):
            time.sleep(0.05)
        digest, left = hashlib.sha256(), int(self.headers["content-length"])
        while left > 0:
            data = self.rfile.read(min(left, 65536))
            digest.update(data)
            left -= len(data)
        self.answer(digest.hexdigest().encode())

    def do_GET(self):
        self.send_response(200)
        self.send_header("content-length", str(${blocks} * ${block}))
        self.end_headers()
        for number in range(${blocks}):
            self.wfile.write(hashlib.sha256(str(number).encode()).digest() * ${block / 32})
            open("/home/user/sent", "w").write(str(number + 1))

    def answer(self, body):
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

listening = ThreadingHTTPServer(("127.0.0.1", 8000), Handler)
open("/home/user/ready", "w").close()
listening.serve_forever()
`;

/** The same content as that of the program. */
function* content(): Generator<Buffer> {
  for (let number = 0; number < blocks; number += 1) {
    const digest = createHash("sha256").update(String(number)).digest();
    yield Buffer.concat(Array<Buffer>(block / 32).fill(digest));
  }
}
const contentDigest = digestOf(content());

function digestOf(chunks: Iterable<Buffer>): string {
  const hash = createHash("sha256");
  for (const chunk of chunks) hash.update(chunk);
  return hash.digest("hex");
}

describe.each(protocols)("100 MiB over TLS and %s", (protocol) => {
  it("go to a program no faster than it reads", async () => {
    await sandbox.commands.run("rm -f /home/user/go /home/user/asked");
    const isBounded = boundedGateway();
    const { body, response } = send(protocol, "PUT");
    let taken = 0;
    const source = Readable.from(
      (function* () {
        for (const chunk of content()) {
          taken += 1;
          yield chunk;
        }
      })(),
    );
    const sent = pipeline(source, body);
    await expect.poll(() => sandbox.files.exists("/home/user/asked")).toBe(true);
    await untilStill(() => Promise.resolve(taken));
    expect(taken).toBeLessThan(blocks);
    await sandbox.files.write("/home/user/go", "");
    await sent;
    expect(await text((await response).body)).toBe(contentDigest);
    isBounded();
  });

  it("come from a program no faster than the client reads", async () => {
    await sandbox.commands.run("rm -f /home/user/sent");
    const isBounded = boundedGateway();
    const { body, response } = send(protocol, "GET");
    body.end();
    const { body: received } = await response;
    await expect.poll(() => sandbox.files.exists("/home/user/sent")).toBe(true);
    const sentBlocks = async (): Promise<number> => Number(await sandbox.files.read("/home/user/sent"));
    await untilStill(sentBlocks);
    expect(await sentBlocks()).toBeLessThan(blocks);
    expect(digestOf([await buffer(received)])).toBe(contentDigest);
    isBounded();
  });
});

it("writes and reads a file of 100 MiB with the SDK", async () => {
  const isBounded = boundedGateway();
  const bytes = Buffer.concat([...content()]);
  await sandbox.files.write("/home/user/file", new Blob([bytes]));
  expect((await sandbox.commands.run("sha256sum </home/user/file")).stdout.split(" ")[0]).toBe(contentDigest);
  const read = await sandbox.files.read("/home/user/file", { format: "stream" });
  expect(digestOf([await buffer(read)])).toBe(contentDigest);
  isBounded();
});

/** Starts a request to the program. */
function send(protocol: SecureRequest["protocol"], method: string) {
  const headers: Record<string, string> = method === "PUT" ? { "content-length": String(blocks * block) } : {};
  return secureRequest(world.cluster, { protocol, host: `8000-${sandbox.sandboxId}`, method, headers });
}

/** Resolves when a number has stopped to change. */
async function untilStill(read: () => Promise<number>): Promise<void> {
  let last = -1;
  const isStill = async (): Promise<boolean> => {
    const now = await read();
    const same = now === last;
    last = now;
    return same;
  };
  await expect.poll(isStill, { interval: 1_000, timeout: 60_000 }).toBe(true);
}

/** @returns a function that checks how much more memory the gateway has used since at most */
function boundedGateway(): () => void {
  const process = `/proc/${world.cluster.pid("gateway")}`;
  const bytes = (field: string): number =>
    Number(new RegExp(`^${field}:\\s+(\\d+) kB`, "m").exec(readFileSync(`${process}/status`, "utf8"))?.[1]) * 1024;
  // The peak starts again from the current size.
  writeFileSync(`${process}/clear_refs`, "5");
  const before = bytes("VmRSS");
  return () => {
    expect(bytes("VmHWM") - before).toBeLessThan(mostHeldBytes);
  };
}
