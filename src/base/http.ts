import { once } from "node:events";
import type { AddressInfo, Server } from "node:net";
import { RametError } from "./errors.ts";

/**
 * Reads an HTTP body to its end.
 * @param what names the body in the error: `The request body`
 * @throws RametError `InvalidArgument` when the body is larger than `limitBytes`
 */
export async function readBody(body: AsyncIterable<unknown>, limitBytes: number, what: string): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of body as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > limitBytes) throw new RametError("InvalidArgument", `${what} is larger than ${limitBytes} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

interface OpenPortOptions {
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
