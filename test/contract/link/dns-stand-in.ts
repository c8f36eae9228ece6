import { createSocket } from "node:dgram";
import { once } from "node:events";
import { createServer, type AddressInfo, type Server } from "node:net";

export interface DnsStandIn {
  readonly address: string;
  /** The requested names, in order. */
  readonly asked: string[];
  close(): void;
}

/**
 * A stand-in for a resolver on loopback. It answers A questions from a table: over TCP with all addresses, and over UDP with
 * at most 512 bytes and the TC flag if that is not all. It does not prove how real resolvers respond.
 */
export async function startDnsStandIn(table: Record<string, string[]>): Promise<DnsStandIn> {
  const asked: string[] = [];
  const server = createServer((socket) => {
    socket
      .on("error", () => undefined)
      .on("data", (data) => {
        const reply = answer(data.subarray(2), table, asked);
        const length = Buffer.alloc(2);
        length.writeUInt16BE(reply.length);
        socket.write(Buffer.concat([length, reply]));
      });
  });
  const port = await listen(server);
  const udp = createSocket("udp4");
  udp.on("message", (query, from) => {
    const reply = answer(query, table, asked);
    // Like some resolvers, sets the flag and cuts the response in the middle of a record.
    if (reply.length > 512) reply.writeUInt16BE(reply.readUInt16BE(2) | 0x0200, 2);
    udp.send(reply.subarray(0, 512), from.port, from.address);
  });
  udp.bind(port, "127.0.0.1");
  await once(udp, "listening");
  return { address: `127.0.0.1:${port}`, asked, close: () => void (udp.close(), server.close()) };
}

function answer(query: Buffer, table: Record<string, string[]>, asked: string[]): Buffer {
  const { name, end } = readName(query);
  asked.push(name);
  const addresses = table[name] ?? [];
  const header = Buffer.from(query.subarray(0, 12));
  header.writeUInt16BE(addresses.length > 0 ? 0x8180 : 0x8183, 2);
  header.writeUInt16BE(addresses.length, 6);
  header.writeUInt32BE(0, 8);
  const records = addresses.map((address) =>
    Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 30, 0, 4, ...address.split(".").map(Number)]),
  );
  return Buffer.concat([header, query.subarray(12, end + 4), ...records]);
}

function readName(query: Buffer): { name: string; end: number } {
  const labels: string[] = [];
  let at = 12;
  for (let length = query[at] ?? 0; length > 0; length = query[at] ?? 0) {
    labels.push(query.toString("latin1", at + 1, at + 1 + length).toLowerCase());
    at += 1 + length;
  }
  return { name: labels.join("."), end: at + 1 };
}

async function listen(server: Server): Promise<number> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
}
