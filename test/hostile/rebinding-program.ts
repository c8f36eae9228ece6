import { createSocket, type RemoteInfo } from "node:dgram";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { isIPv6 } from "node:net";
import { text } from "node:stream/consumers";
import { RametError } from "../../src/base/errors.ts";
import { publicFetch } from "../../src/controllers/named-snapshot/steps/fetch-content.ts";

/**
 * Fetches URLs in a network namespace where every address has a server, with a resolver of an attacker. The first part of a name tells
 * which of `answers` its first lookup gets, and the second part which ones the later lookups get. Prints how each fetch has ended, the
 * addresses that were reached, and how often each name was looked up.
 */
const [table = "{}", ...urls] = process.argv.slice(2);
const answers = JSON.parse(table) as Record<string, string[]>;
const reached = new Set<string>();
const asked: Record<string, number> = {};

const typeA = 1;
const typeCname = 5;
const typeAaaa = 28;

/** The records of a name for one type. Answers that begin with = are aliases. */
function recordsOf(name: string, type: number): { type: number; data: Buffer }[] {
  const [first = "", second = first] = name.split(".").slice(0, -1);
  // Both types are asked at the same time.
  if (type === typeA) asked[name] = (asked[name] ?? 0) + 1;
  const turn = (asked[name] ?? 1) === 1 ? first : second;
  return (answers[turn] ?? []).flatMap((answer) => {
    if (answer.startsWith("=")) return [{ type: typeCname, data: encodeName(answer.slice(1)) }];
    if (isIPv6(answer)) return type === typeAaaa ? [{ type, data: bytesOf(answer) }] : [];
    return type === typeA ? [{ type, data: Buffer.from(answer.split(".").map(Number)) }] : [];
  });
}

function bytesOf(address: string): Buffer {
  const [head = "", tail = ""] = new URL(`http://[${address}]`).hostname.slice(1, -1).split("::");
  const words = (part: string): number[] =>
    part === "" ? [] : part.split(":").map((word) => Number.parseInt(word, 16));
  const [before, after] = [words(head), words(tail)];
  const all = [...before, ...Array<number>(8 - before.length - after.length).fill(0), ...after];
  return Buffer.from(all.flatMap((word) => [word >> 8, word & 255]));
}

function encodeName(name: string): Buffer {
  return Buffer.concat([
    ...name.split(".").map((label) => Buffer.from(`${String.fromCharCode(label.length)}${label}`)),
    Buffer.of(0),
  ]);
}

function reply(query: Buffer): Buffer {
  const labels: string[] = [];
  let at = 12;
  for (let length = query[at] ?? 0; length > 0; length = query[at] ?? 0) {
    labels.push(query.toString("latin1", at + 1, at + 1 + length));
    at += 1 + length;
  }
  let owner = encodeName(labels.join("."));
  const records = recordsOf(labels.join("."), query.readUInt16BE(at + 1)).map(({ type, data }) => {
    const fixed = Buffer.alloc(10);
    fixed.writeUInt16BE(type, 0);
    fixed.writeUInt16BE(1, 2);
    fixed.writeUInt16BE(data.length, 8);
    const record = Buffer.concat([owner, fixed, data]);
    if (type === typeCname) owner = data;
    return record;
  });
  const header = Buffer.from(query.subarray(0, 12));
  header.writeUInt16BE(0x8180, 2);
  header.writeUInt16BE(records.length, 6);
  header.writeUInt32BE(0, 8);
  return Buffer.concat([header, query.subarray(12, at + 5), ...records]);
}

function serve(request: IncomingMessage, response: ServerResponse): void {
  reached.add(request.socket.localAddress ?? "");
  // Each request looks its name up again.
  response.setHeader("connection", "close");
  const { searchParams } = new URL(request.url ?? "", "http://server");
  const to = searchParams.get("to");
  if (to === null) response.end("content");
  else response.writeHead(302, { location: to }).end();
}

const resolver = createSocket("udp4");
resolver.on("message", (query: Buffer, from: RemoteInfo) => {
  resolver.send(reply(query), from.port, from.address);
});
resolver.bind(53, "127.0.0.1");
const servers = ["0.0.0.0", "::"].map((host) =>
  createServer(serve).listen({ port: 80, host, ipv6Only: host === "::" }),
);
await Promise.all([
  once(resolver, "listening"),
  ...servers.map((server) => Promise.race([once(server, "listening"), once(server, "error")])),
]);

const fetch = publicFetch();
const ends: string[] = [];
for (const url of urls) {
  const end = await fetch(url, AbortSignal.timeout(20_000)).then(text, (error: unknown) => RametError.from(error).code);
  ends.push(end);
}
process.stdout.write(JSON.stringify({ ends, reached: [...reached], asked }));
process.exit();
