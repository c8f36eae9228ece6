import { once } from "node:events";
import type { AddressInfo, Server } from "node:net";
import { RametError } from "./errors.ts";

export interface OpenPortOptions {
  /** 0 selects a free port. */
  port: number;
  address: string;
  /** What the reader can do when the port cannot be opened. */
  hint: string;
}

/** Starts listening on a port. @returns the port @throws RametError `Unavailable` when the port cannot be opened */
export async function openPort(server: Server, { port, address, hint }: OpenPortOptions): Promise<number> {
  server.listen(port, address);
  try {
    await once(server, "listening");
  } catch (cause) {
    throw new RametError("Unavailable", `Cannot listen on ${address}, port ${port}: ${String(cause)}`, {
      hint,
      cause,
    });
  }
  return (server.address() as AddressInfo).port;
}
