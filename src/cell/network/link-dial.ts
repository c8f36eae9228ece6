import { connect, type Socket } from "node:net";
import { join } from "node:path";
import type { Duplex } from "node:stream";
import { onAbort } from "../../base/clock.ts";
import { RametError } from "../../base/errors.ts";
import { JsonLine, LinkDialAnswer, linkError } from "./link-lines.ts";

/** The path of link's Unix socket. */
export function linkSocket(directory: string): string {
  return join(directory, "link.sock");
}

export interface DialOptions {
  /** A connection of the cell: it also works while the gate is closed, and can reach the guest's control port. */
  control?: boolean;
  signal?: AbortSignal;
}

/**
 * Connects to a port of the sandbox through link's Unix socket.
 *
 * @throws RametError from link; `Unavailable` if link has exited; `Canceled`
 */
export async function dialLink(path: string, port: number, options: DialOptions = {}): Promise<Duplex> {
  const { control = false, signal } = options;
  if (signal?.aborted === true) throw canceled(port);
  const socket = connect({ path, allowHalfOpen: true });
  const stop = signal && onAbort(signal, () => socket.destroy(canceled(port)));
  try {
    socket.write(`${JSON.stringify({ port, control })}\n`);
    const answer = JsonLine.pipe(LinkDialAnswer).parse(await firstLine(socket));
    if (answer.error !== undefined) throw linkError(answer.error);
    return socket;
  } catch (error) {
    socket.destroy();
    if (error instanceof RametError) throw error;
    const why = error instanceof Error ? error.message : String(error);
    throw new RametError("Unavailable", `connecting to port ${port} of the sandbox failed: ${why}`, { cause: error });
  } finally {
    stop?.();
  }
}

/** Every response of link is shorter than this. */
const maxLineBytes = 4096;

/** Reads up to the first line feed and leaves the rest in the stream. */
async function firstLine(socket: Socket): Promise<string> {
  let read = Buffer.alloc(0);
  for await (const chunk of socket.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    read = Buffer.concat([read, chunk]);
    const end = read.indexOf("\n");
    if (end >= 0) {
      socket.unshift(read.subarray(end + 1));
      return read.toString("utf8", 0, end);
    }
    if (read.length > maxLineBytes) throw new Error("link sent no line");
  }
  throw new Error("link closed the connection");
}

function canceled(port: number): RametError {
  return new RametError("Canceled", `connecting to port ${port} of the sandbox was aborted`);
}
