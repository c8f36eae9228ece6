import { once } from "node:events";
import {
  type ClientRequest,
  createServer as createHttpServer,
  type IncomingMessage,
  request,
  type ServerResponse,
} from "node:http";
import { type AddressInfo, createServer as createTcpServer, type Server, type Socket } from "node:net";
import { type Duplex, pipeline } from "node:stream";
import { untilAborted } from "../../base/clock.ts";
import { RametError } from "../../base/errors.ts";
import { type ClusterOptions, withCluster } from "../cluster/cluster.ts";
import type { AccessFlags } from "../cluster/gateway-credentials.ts";
import type { Transport } from "../../cell/client/gateway-guest.ts";
import { type PortAccess, withPorts } from "../cluster/guest-access.ts";
import { exitCodes } from "../report-error.ts";
import { type Io, printLine } from "../io.ts";

export interface Forward {
  /** 0: any free port. */
  local: number;
  remote: number;
}

export interface PortForwardOptions extends ClusterOptions, AccessFlags {
  name: string;
  ports: readonly Forward[];
  address: string;
}

/** `ramet sandbox port-forward`: forwards until a signal arrives, and then exits with 130. */
export async function forwardPorts(io: Io, options: PortForwardOptions): Promise<number> {
  return withCluster(io, options, (cluster) =>
    withPorts(io, cluster, { sandbox: options.name, flags: options }, async (access) => {
      const open = new Set<Socket>();
      const servers = options.ports.map(({ remote }) => serverFor(io, access, remote));
      for (const server of servers) {
        server.on("connection", (socket: Socket) => {
          open.add(socket);
          socket.once("close", () => open.delete(socket));
        });
      }
      try {
        await Promise.all(servers.map((server, at) => listen(io, server, { ...options.ports[at], ...options })));
        await untilAborted(io.signal);
      } finally {
        for (const server of servers) server.close();
        for (const socket of open) socket.destroy();
      }
      return exitCodes.interrupted;
    }),
  );
}

async function listen(
  io: Io,
  server: Server,
  { local = 0, remote = 0, address, name }: Partial<Forward> & PortForwardOptions,
): Promise<void> {
  try {
    server.listen(local, address);
    await once(server, "listening", { signal: io.signal });
  } catch (error) {
    throw new RametError("InvalidArgument", `Cannot listen on ${address}:${local}: ${RametError.from(error).message}`, {
      hint: "Choose another local port: LOCAL:PORT, where LOCAL 0 is any free one",
      cause: error,
    });
  }
  const { port } = server.address() as AddressInfo;
  const host = address.includes(":") ? `[${address}]` : address;
  printLine(io.stdout, `${host}:${port} -> ${name}:${remote}`);
}

function serverFor(io: Io, { dial, http }: PortAccess, port: number): Server {
  if (dial !== undefined) return rawServer(io, () => dial(port));
  if (http === undefined) throw new RametError("Internal", "There is no way to the sandbox's ports");
  return httpServer(io, http(port));
}

function rawServer(io: Io, dial: () => Promise<Duplex>): Server {
  return createTcpServer((socket) => {
    socket.on("error", () => undefined);
    dial().then(
      (stream) => {
        join(socket, stream);
      },
      (error: unknown) => {
        printLine(io.stderr, `error: ${RametError.from(error).message}`);
        socket.destroy();
      },
    );
  });
}

/** A gateway proxies HTTP and upgrades of it, and wants to know the sandbox and the user with each request. */
function httpServer(io: Io, transport: Transport): Server {
  const server = createHttpServer((incoming, outgoing) => {
    forward(incoming, transport).then(
      (response) => {
        outgoing.writeHead(response.statusCode ?? 502, response.rawHeaders);
        pipeline(response, outgoing, () => undefined);
      },
      (error: unknown) => {
        refuse(io, outgoing, error);
      },
    );
  });
  server.on("upgrade", (incoming: IncomingMessage, socket: Duplex, head: Buffer) => {
    upgrade(incoming, transport, { socket, head }).catch((error: unknown) => {
      printLine(io.stderr, `error: ${RametError.from(error).message}`);
      socket.destroy();
    });
  });
  return server;
}

async function forward(incoming: IncomingMessage, transport: Transport): Promise<IncomingMessage> {
  const outgoing = await requestTo(incoming, transport);
  pipeline(incoming, outgoing, () => undefined);
  const [response] = (await once(outgoing, "response")) as [IncomingMessage];
  return response;
}

async function upgrade(
  incoming: IncomingMessage,
  transport: Transport,
  { socket, head }: { socket: Duplex; head: Buffer },
): Promise<void> {
  socket.on("error", () => undefined);
  const outgoing = await requestTo(incoming, transport);
  outgoing.end();
  const { response, stream, first } = await upgradeOf(outgoing);
  const lines = [`HTTP/1.1 ${response.statusCode ?? 502} ${response.statusMessage ?? ""}`];
  for (let at = 0; at < response.rawHeaders.length; at += 2) {
    lines.push(`${response.rawHeaders[at] ?? ""}: ${response.rawHeaders[at + 1] ?? ""}`);
  }
  socket.write(`${lines.join("\r\n")}\r\n\r\n`);
  if (stream === undefined) {
    pipeline(response, socket, () => undefined);
    return;
  }
  if (first !== undefined) socket.write(first);
  stream.write(head);
  join(socket, stream);
}

/** A server may answer an upgrade with an ordinary response. */
function upgradeOf(outgoing: ClientRequest): Promise<Upgraded> {
  return new Promise((resolve, reject) => {
    outgoing.once("upgrade", (response, stream, first) => {
      resolve({ response, stream, first });
    });
    outgoing.once("response", (response) => {
      resolve({ response });
    });
    outgoing.once("error", reject);
  });
}

interface Upgraded {
  response: IncomingMessage;
  stream?: Duplex;
  first?: Buffer;
}

async function requestTo({ method, url, headers }: IncomingMessage, { dial, callHeaders }: Transport) {
  const [stream, own] = await Promise.all([dial(), callHeaders()]);
  return request({ method, path: url, headers: { ...headers, ...own }, createConnection: () => stream });
}

function refuse(io: Io, outgoing: ServerResponse, error: unknown): void {
  const { message } = RametError.from(error);
  printLine(io.stderr, `error: ${message}`);
  if (!outgoing.headersSent) outgoing.writeHead(502, { "content-type": "text/plain" });
  outgoing.end(`${message}\n`);
}

function join(a: Duplex, b: Duplex): void {
  pipeline(a, b, () => undefined);
  pipeline(b, a, () => undefined);
}
