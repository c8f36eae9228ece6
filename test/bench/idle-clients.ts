import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import type { ClientWorld } from "../clients/client-world.ts";
import { processesWith } from "../faults/processes.ts";
import { memoryOf } from "./memory.ts";

/** The memory of the client API for clients that keep a connection and send nothing. */
export interface IdleClients {
  clients: number;
  /** Before there were any. */
  residentMiB: number;
  kibibytesPerClient: number;
}

interface IdleOptions {
  options: { apiKey: string; apiUrl: string };
  clients: number;
}

/** Each client sends one request first. */
export async function measureIdleClients(world: ClientWorld, { options, clients }: IdleOptions): Promise<IdleClients> {
  const [server] = await processesWith("client-api", world.cluster.directory.kubeconfig);
  const resident = async () => (await memoryOf("client API", [server?.pid ?? 0])).rssMiB;
  const { hostname, port } = new URL(options.apiUrl);
  const request = `GET /v2/sandboxes HTTP/1.1\r\nHost: ${hostname}\r\nX-API-Key: ${options.apiKey}\r\n\r\n`;
  const open = async (): Promise<Socket> => {
    const socket = connect(Number(port), hostname);
    socket.write(request);
    await once(socket, "data");
    return socket;
  };
  // The costs that only the first clients cause do not count.
  const first = await Promise.all(Array.from({ length: 50 }, open));
  await sleep(restMilliseconds);
  const before = await resident();
  const sockets: Socket[] = [];
  for (let left = clients; left > 0; left -= 50) sockets.push(...(await Promise.all(Array.from({ length: 50 }, open))));
  await sleep(restMilliseconds);
  const after = await resident();
  for (const socket of [...first, ...sockets]) socket.destroy();
  return {
    clients: sockets.length,
    residentMiB: before,
    kibibytesPerClient: ((after - before) * 1024) / sockets.length,
  };
}

const restMilliseconds = 3_000;
