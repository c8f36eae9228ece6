import { EventEmitter } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import fc from "fast-check";
import { cellPort } from "../../src/api/wire/cell-api.ts";
import { CellClient } from "../../src/cell/client/cell-client.ts";
import { cellKeyFromPem, newCellKeyPem } from "../../src/cell/client/cell-token.ts";
import { GuestClient } from "../../src/cell/client/guest-client.ts";
import { GuestControl } from "../../src/cell/client/guest-control.ts";
import { LinkLines, dialLink } from "../../src/cell/network/link-lines.ts";
import { addressBlock } from "../setup/address-block.ts";
import { bytesLike, textsLike } from "./inputs.ts";
import { RawServer } from "./raw-server.ts";
import { digest, endOfStream, errorOfStream, streamEvents } from "./samples.ts";
import { assertThat, codedLater, target } from "./target.ts";

function response(status: string, body: string, ...headers: string[]): string {
  return [`HTTP/1.1 ${status}`, ...headers, `Content-Length: ${body.length}`, "", body].join("\r\n");
}

const cellState = {
  phase: "running",
  generation: 1,
  ready: true,
  engine: { version: "1", architecture: "amd64", guest: digest },
};
const failure = { code: "Conflict", message: "it is busy", hint: "Wait", retryable: true };
const cellAnswers = [
  response("200 OK", JSON.stringify(cellState)),
  response("200 OK", `${JSON.stringify(cellState)}\n${JSON.stringify(cellState)}\n`),
  response("200 OK", JSON.stringify({ state: cellState, phases: { load: 1 } })),
  response("409 Conflict", JSON.stringify(failure)),
  response("500 x", ""),
  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
  "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\nhello",
  "HTTP/1.1 100 Continue\r\n\r\n",
  `HTTP/1.1 204 No Content\r\nramet-cell-key: ${"A".repeat(43)}\r\nramet-cell-proof: ${"A".repeat(86)}\r\n\r\n`,
];
const guestAnswers = [
  response("200 OK", JSON.stringify({ entries: [{ name: "a", path: "/a", size: "5", type: "FILE_TYPE_FILE" }] })),
  response(
    "200 OK",
    JSON.stringify({ entry: { name: "a" }, processes: [{ pid: 1, config: { cmd: "sh" } }], exitCode: 0 }),
  ),
  response(
    "200 OK",
    JSON.stringify({ pid: 1, generation: 1, entrypoint: { state: "running" }, hooks: [], warnings: ["a"] }),
  ),
  response("404 Not Found", JSON.stringify({ code: "not_found", message: "gone", details: [{ type: "x" }] })),
  response("200 OK", [...streamEvents, endOfStream].join(""), "Content-Type: application/connect+json"),
  response("200 OK", errorOfStream, "Content-Type: application/connect+json"),
  ...cellAnswers,
];
const tokens = [
  "\r\n",
  "HTTP/1.1 ",
  "200",
  "101",
  "Content-Length: 0\r\n",
  "Transfer-Encoding: chunked\r\n",
  "Connection: close\r\n",
  "null",
  "{}",
  "\0\0\0\0\x02{}",
];
const linkLines = [
  '{"event":"made","netns":"/proc/1/ns/net"}\n{"event":"ready"}\n{"id":1,"ok":true}\n',
  '{"event":"error","code":"HostUnsupported","message":"no","hint":""}\n',
  '{"id":1,"error":{"code":"Nonsense","message":"m"}}\n',
  '{"ok":true}\nhello',
];

/** Clients that read what a hostile process answers. Its connection ends after that, so no call has to time out. */
export const answerTargets = [
  target({
    name: "answers of cells",
    share: 1,
    inputs: bytesLike(cellAnswers, tokens),
    examples: [Buffer.from("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}")],
    world: async () => {
      const ip = `127.75.${addressBlock()}.1`;
      const server = await RawServer.open({ port: cellPort, host: ip });
      return { server, ip, client: new CellClient(cellKeyFromPem(newCellKeyPem())) };
    },
    check: async (bytes, { server, ip, client }) => {
      server.answer = bytes;
      const cell = { ip, sandboxUid: "uid" };
      await Promise.all([
        codedLater(() => client.state(cell)),
        codedLater(() => client.cellKey(cell)),
        codedLater(() => client.state({ ...cell, cellKey: "a" })),
        codedLater(() => client.stop(cell, "test")),
        codedLater(async () => (await client.dial(cell, 80)).destroy()),
        codedLater(() => client.untilLoaded(cell)),
      ]);
    },
    close: ({ server, client }) => {
      client.close();
      server.close();
    },
  }),
  target({
    name: "answers of guests",
    share: 1,
    inputs: bytesLike(guestAnswers, tokens),
    world: () => RawServer.open({ port: 0, host: "127.0.0.1" }),
    check: async (bytes, server) => {
      server.answer = bytes;
      const guest = new GuestClient({ dial: server.dial, accessToken: "t" });
      const control = new GuestControl(server.dial);
      await Promise.all([
        codedLater(() => guest.list("/")),
        codedLater(() => guest.listProcesses()),
        codedLater(() => control.health()),
        codedLater(() => control.quiesce()),
        codedLater(() => control.programs()),
        codedLater(async () => {
          const file = await guest.readFile("/a");
          // The stream is the caller's, and so are its errors.
          await file.toArray().catch(() => undefined);
        }),
        codedLater(() => guest.writeFile("/a", Buffer.from("hello"))),
        codedLater(async () => {
          for await (const _ of guest.startProcess({ command: "true" })) continue;
        }),
        codedLater(async () => {
          const input = guest.openInput({ pid: 1 });
          await input.write(Buffer.from("a"));
          await input.end();
        }),
      ]);
    },
    close: (server) => {
      server.close();
    },
  }),
  target({
    name: "answers of link to connections",
    share: 0.5,
    inputs: bytesLike(linkLines, ["\n", "{}", '{"ok":true}']),
    examples: [Buffer.from('{"ok":true}\nhello')],
    world: async () => {
      const directory = await mkdtemp(join(tmpdir(), "ramet-fuzz-"));
      const path = join(directory, "link.sock");
      return { directory, path, server: await RawServer.open({ path }) };
    },
    check: async (bytes, { path, server }) => {
      server.answer = bytes;
      const socket = await codedLater(() => dialLink(path, 80));
      if (socket === undefined) return;
      // The lines after the first one are of the program in the sandbox.
      const rest = Buffer.concat((await socket.toArray()) as Buffer[]);
      assertThat(rest.equals(bytes.subarray(bytes.indexOf("\n") + 1)), `the program sent ${JSON.stringify(rest)}`);
    },
    close: async ({ server, directory }) => {
      server.close();
      await rm(directory, { recursive: true });
    },
  }),
  target({
    name: "lines of link",
    inputs: fc.record({
      out: textsLike(linkLines, ["\n", "{}"]),
      error: textsLike(["refused: a\n"]),
      code: fc.nat(255),
    }),
    check: async ({ out, error, code }) => {
      // Stands in for the process of link, whose output the input is.
      const child = Object.assign(new EventEmitter(), {
        stdin: new PassThrough().resume(),
        stdout: new PassThrough(),
        stderr: new PassThrough(),
      });
      const lines = new LinkLines(child as never, () => undefined);
      const answered = codedLater(() => lines.request({ op: "gate", open: true }));
      child.stdout.end(out);
      child.stderr.end(error);
      await Promise.all(
        [child.stdout, child.stderr].map((stream) => new Promise((resolve) => stream.once("close", resolve))),
      );
      child.emit("close", code, null);
      await Promise.all([answered, codedLater(() => lines.netns), codedLater(() => lines.ready), lines.closed]);
    },
  }),
];
