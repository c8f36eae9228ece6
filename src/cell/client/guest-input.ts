import type { IncomingMessage } from "node:http";
import { PassThrough, type Readable } from "node:stream";
import type { RametError } from "../../base/errors.ts";
import { untilWritable } from "../../base/http.ts";
import { guestFailure, unreachable } from "./guest-http.ts";
import { envelope, envelopes, StreamEnd } from "./guest-wire.ts";

/** A stream to a command's input. */
export interface GuestInput {
  /** Resolves when there is room for more. @throws RametError `Conflict` or `NotFound` if the command accepts no more */
  write(data: Uint8Array): Promise<void>;
  /** Resolves when the command has read all input, or the kernel has buffered it. The command's input stays open. */
  end(): Promise<void>;
  /** Closes the stream, and discards input in transit. */
  close(): void;
}

export interface GuestInputOptions {
  process: object;
  into: "stdin" | "pty";
  /** Calls process.Process/StreamInput with this body. Resolves with its response. */
  call: (body: Readable, signal: AbortSignal) => Promise<IncomingMessage>;
}

const what = "sending input to a command";

/** Sends all parts over one connection: one call per part would take about 20 ms each through a cell. */
export function guestInput({ process, into, call }: GuestInputOptions): GuestInput {
  const body = new PassThrough({ highWaterMark: bufferedBytes });
  const closing = new AbortController();
  let failure: RametError | undefined;
  const answered = call(body, closing.signal)
    .then(outcome)
    .catch((error: unknown) => {
      failure = unreachable(what, error, closing.signal);
      body.destroy();
    });
  // The response reports errors.
  body.on("error", () => undefined);
  body.write(envelope({ start: { process } }));
  const throwFailure = (): void => {
    if (failure !== undefined) throw failure;
  };
  return {
    async write(data) {
      throwFailure();
      const message = { data: { input: { [into]: Buffer.from(data).toString("base64") } } };
      if (body.write(envelope(message))) return;
      // If the connection breaks, the response has the reason.
      await untilWritable(body);
      if (body.destroyed) await answered;
      throwFailure();
    },
    async end() {
      body.end();
      await answered;
      throwFailure();
    },
    close() {
      closing.abort();
      body.destroy();
    },
  };
}

/** Enough to have the next part ready when the guest has read one. */
const bufferedBytes = 256 * 1024;

/** The response arrives when the guest has read all input, or earlier if the command accepts no more. */
async function outcome(response: IncomingMessage): Promise<void> {
  try {
    for await (const { end, body } of envelopes(response)) {
      if (!end) continue;
      const { error } = StreamEnd.parse(body);
      if (error !== undefined) throw guestFailure(what, error);
    }
  } finally {
    response.destroy();
  }
}
