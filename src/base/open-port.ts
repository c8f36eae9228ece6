import { once } from "node:events";
import type { AddressInfo, Server } from "node:net";
import { RametError } from "./errors.ts";

export interface OpenPortOptions {
  /** 0: any that is free. */
  port: number;
  address: string;
  /** What to do when it cannot be opened. */
  hint: string;
}

/** Has a server listen. @returns the port @throws RametError `Unavailable` when it cannot be opened */
export async function openPort(server: Server, { port, address, hint }: OpenPortOptions): Promise<number> {
  server.listen(port, address);
  try {
    await once(server, "listening");
  } catch (cause) {
    throw new RametError("Unavailable", `The port ${port} of ${address} cannot be opened: ${String(cause)}`, {
      hint,
      cause,
    });
  }
  return (server.address() as AddressInfo).port;
}
