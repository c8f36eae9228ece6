import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import { PassThrough, type Readable } from "node:stream";
import type { RametError } from "../../base/errors.ts";
import { guestFailure } from "./guest-error.ts";
import { unreachable } from "./guest-http.ts";
import { envelope, envelopes, StreamEnd } from "./guest-wire.ts";

/** A command's input, as a stream of its own. */
export interface GuestInput {
  /** Returns when there is room for more. @throws RametError `Conflict` or `NotFound` when the command takes no more */
  write(data: Uint8Array): Promise<void>;
  /** Returns when the command, or the kernel for it, has all that was written. The command's input stays open. */
  end(): Promise<void>;
  /** Lets go of it, whatever is on its way. */
  close(): void;
}

export interface GuestInputOptions {
  process: object;
  into: "stdin" | "pty";
  /** Makes the call of process.Process/StreamInput with this body; resolves with its answer. */
  call: (body: Readable, signal: AbortSignal) => Promise<IncomingMessage>;
}

const what = "giving a command input";

/** A call for each part costs a connection each, some 20 ms through a cell; here all parts share one. */
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
  // What goes wrong is told by the answer.
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
      await roomIn(body);
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

/** Enough that the next part is there when the guest has taken one. */
const bufferedBytes = 256 * 1024;

/** Or the end of it, which its failure tells. */
async function roomIn(body: PassThrough): Promise<void> {
  const over = new AbortController();
  const { signal } = over;
  try {
    await Promise.race([once(body, "drain", { signal }), once(body, "close", { signal })]);
  } finally {
    over.abort();
  }
}

/** The answer comes when the guest has taken all, or earlier when it takes no more. */
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
