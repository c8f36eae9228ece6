import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { guestClientPort, guestControlPort } from "../../../src/api/wire/cell-api.ts";
import type { RunningCell } from "../../setup/cell-rig.ts";
import { Cells } from "../../setup/cells.ts";

const [ipv4, ipv6, echoing, declared] = [8080, 8081, 8082, 8083];

/** Each server listens on one address only. The counter is in memory, so a clone continues from its source's. */
const servers = `import http.server, socket, socketserver, threading
class Count(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    counts = {}
    def do_GET(self):
        port = self.server.server_address[1]
        self.counts[port] = self.counts.get(port, 0) + 1
        body = f"{self.server.server_address[0]} {self.counts[port]} from {self.client_address[0]}".encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_): pass
class V6(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET6
class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.sendall(b"220 ready ")
        while data := self.request.recv(65536): self.request.sendall(data)
class EchoServer(socketserver.ThreadingTCPServer): daemon_threads = True
made = [http.server.ThreadingHTTPServer(("127.0.0.1", ${ipv4}), Count), V6(("::1", ${ipv6}), Count),
        EchoServer(("127.0.0.1", ${echoing}), Echo), http.server.ThreadingHTTPServer(("127.0.0.1", ${declared}), Count)]
for server in made: threading.Thread(target=server.serve_forever).start()
open("/listening", "w").close()`;

describe("programs that listen only on a loopback address of the sandbox", () => {
  let cells: Cells;
  let source: RunningCell;

  beforeAll(async () => {
    cells = await Cells.open();
    source = await cells.boot({
      name: "source",
      container: { command: ["python3", "-c", servers], ports: [declared] },
    });
    await cells.output(source, "until [ -e /listening ]; do sleep 0.05; done");
  });
  afterAll(() => cells.close());

  async function get(cell: RunningCell, port: number): Promise<string> {
    const stream = await cells.client.dial(cell.address, port);
    stream.write("GET / HTTP/1.1\r\nHost: sandbox\r\nConnection: close\r\n\r\n");
    const response = await text(stream);
    return response.slice(response.indexOf("\r\n\r\n") + 4);
  }

  it("are reachable through the cell, on IPv4 and IPv6", async () => {
    expect(await get(source, ipv4)).toBe("127.0.0.1 1 from 127.0.0.1");
    expect(await get(source, ipv4)).toBe("127.0.0.1 2 from 127.0.0.1");
    expect(await get(source, ipv6)).toBe("::1 1 from ::1");
  });

  it("can send first, and get every byte and the end of what a client sends", async () => {
    const sent = randomBytes(8 << 20);
    const stream = await cells.client.dial(source.address, echoing);
    stream.end(sent);
    const chunks: Buffer[] = [];
    for await (const chunk of stream) chunks.push(chunk as Buffer);
    const received = Buffer.concat(chunks);
    expect(received.subarray(0, 10).toString()).toBe("220 ready ");
    expect(received.subarray(10).equals(sent)).toBe(true);
  });

  it("are reachable in a clone, and after a restore in place, which ends the connections from before", async () => {
    const { manifestDigest } = await cells.checkpoint(source, "counted");
    const held = await cells.client.dial(source.address, echoing);
    held.on("error", () => undefined);
    held.write("x");
    await once(held, "data");
    const container = { command: ["python3", "-c", servers], ports: [declared] };
    const clone = await cells.clone({ name: "clone", container }, { checkpointId: "counted", manifestDigest });
    expect(await get(clone, ipv4)).toBe("127.0.0.1 3 from 127.0.0.1");
    expect(await get(clone, ipv6)).toBe("::1 2 from ::1");
    const grant = await cells.readGrant({ checkpointId: "counted", manifestDigest });
    const { identity, address } = source;
    const ended = once(held, "close");
    await cells.client.restoreInPlace(address, { identity, grant, contents: ["memory", "filesystem"], request: "one" });
    await ended;
    expect(await get(source, ipv4)).toBe("127.0.0.1 3 from 127.0.0.1");
  });

  it("end with an error where nothing listens, and never reach the guest's control port", async () => {
    await expect(cells.client.dial(source.address, 9)).rejects.toMatchObject({
      code: "Unavailable",
      message: expect.stringContaining("nothing listens there") as string,
    });
    await expect(cells.client.dial(source.address, guestControlPort)).rejects.toMatchObject({ code: "Forbidden" });
    const guest = await cells.client.dial(source.address, guestClientPort);
    guest.write(`POST /loopback/${ipv4} HTTP/1.1\r\nHost: guest\r\nConnection: close\r\n\r\n`);
    expect(await text(guest)).toMatch(/^HTTP\/1\.1 401 /);
  });

  it("are not reachable at a declared port of the Pod's address, which requires no authorization", async () => {
    expect(await get(source, declared)).toBe("127.0.0.1 1 from 127.0.0.1");
    await expect(fetch(`http://${source.address.ip}:${declared}`)).rejects.toThrow("fetch failed");
  });

  it("cannot connect to the guest's control port themselves", async () => {
    const script = `import socket
for host in ("127.0.0.1", "169.254.17.2"):
    s = socket.create_connection((host, ${guestControlPort}))
    try:
        s.sendall(b"POST /loopback/${ipv4} HTTP/1.1\\r\\nHost: guest\\r\\n\\r\\n")
        print(s.recv(100))
    except OSError: print("closed")`;
    expect(await cells.output(source, `python3 -c '${script}'`)).toMatch(/^(b''|closed)\n(b''|closed)$/);
  });
});
