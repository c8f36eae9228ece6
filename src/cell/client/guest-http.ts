import { once } from "node:events";
import { request as httpRequest, type IncomingMessage } from "node:http";
import type { Duplex, Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { RametError } from "../../base/errors.ts";

/** Makes a raw stream to one of the guest's ports: through link's socket in the cell, by `CellClient.dial` elsewhere. */
export type GuestDial = () => Promise<Duplex>;

export interface GuestCall {
  method: "GET" | "POST";
  path: string;
  headers?: Record<string, string>;
  body?: Buffer | Readable;
  signal?: AbortSignal | undefined;
}

/**
 * One HTTP call to the guest on a connection of its own: a checkpoint cuts connections, so none is kept. The answer may
 * have any status.
 *
 * @throws RametError `GuestUnreachable` (retryable) or `Canceled`
 */
export async function callGuest(dial: GuestDial, call: GuestCall): Promise<IncomingMessage> {
  const { method, path, body, signal } = call;
  try {
    signal?.throwIfAborted();
    const connection = await dial();
    const request = httpRequest({
      createConnection: () => connection,
      method,
      path,
      headers: {
        host: "guest",
        ...call.headers,
        ...(body === undefined && method === "POST" ? { "content-length": "0" } : {}),
        ...(Buffer.isBuffer(body) ? { "content-length": `${body.length}` } : {}),
      },
      ...(signal && { signal }),
    });
    // A connection that is reset after the answer began tells the request as well as the answer; only the latter counts.
    request.on("error", () => undefined);
    const answered = once(request, "response") as Promise<[IncomingMessage]>;
    if (body === undefined || Buffer.isBuffer(body)) request.end(body);
    // A guest that refuses an upload answers before it has read all of it: the answer counts, not the broken pipe.
    else pipeline(body, request).catch(() => undefined);
    const [response] = await answered;
    return response;
  } catch (error) {
    throw unreachable(path, error, signal);
  }
}

/** The whole answer as text. @throws RametError `GuestUnreachable` when the connection breaks in the middle */
export async function textOf(response: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  try {
    for await (const chunk of response as AsyncIterable<Buffer>) chunks.push(chunk);
  } catch (error) {
    throw unreachable("the answer", error);
  }
  return Buffer.concat(chunks).toString("utf8");
}

/** What a broken conversation with the guest is called. */
export function unreachable(what: string, error: unknown, signal?: AbortSignal): RametError {
  if (signal?.aborted === true) {
    return new RametError("Canceled", `the call to the guest (${what}) was given up`, { cause: error });
  }
  if (error instanceof RametError) return error;
  const why = error instanceof Error ? error.message : String(error);
  return new RametError("GuestUnreachable", `the guest did not answer (${what}): ${why}`, {
    retryable: true,
    cause: error,
    hint: "After a checkpoint or a restore connections are cut; connect again.",
  });
}
