import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";

export interface SocksProxy {
  address: string;
  /** The destinations, in order. */
  connected: string[];
  close(): void;
}

/** A stand-in for a SOCKS5 proxy: user name and password, CONNECT to an IPv4 address. It expects each message in one piece. */
export async function startSocksProxy(
  host: string,
  { username, password }: { username: string; password: string },
): Promise<SocksProxy> {
  const connected: string[] = [];
  const sockets = new Set<Socket>();
  const next = async (socket: Socket): Promise<Buffer> => {
    const [data] = (await once(socket, "data")) as [Buffer];
    return data;
  };
  const serve = async (socket: Socket): Promise<void> => {
    await next(socket);
    socket.write(Buffer.from([5, 2]));
    const given = await next(socket);
    const own = [username, password].flatMap((text) => [text.length, ...Buffer.from(text)]);
    const isAllowed = given.equals(Buffer.from([1, ...own]));
    socket.write(Buffer.from([1, isAllowed ? 0 : 1]));
    if (!isAllowed) return void socket.end();
    const request = await next(socket);
    const to = { host: [...request.subarray(4, 8)].join("."), port: request.readUInt16BE(8) };
    connected.push(`${to.host}:${to.port}`);
    const outer = connect(to, () => {
      socket.write(Buffer.from([5, 0, 0, 1, 0, 0, 0, 0, 0, 0]));
      socket.pipe(outer).pipe(socket);
    });
    outer.on("error", () => socket.destroy());
  };
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => undefined);
    serve(socket).catch(() => socket.destroy());
  });
  server.listen(0, host);
  await once(server, "listening");
  const close = (): void => {
    for (const socket of sockets) socket.destroy();
    server.close();
  };
  return { address: `${host}:${(server.address() as AddressInfo).port}`, connected, close };
}
