import { type Answer, fromBody, LostStream, mostAnswerBytes, tooLarge } from "./answer.ts";
import { asUser, endAfter, type Guest, type RequestOptions } from "./connection.ts";

export interface Output {
  stdout?: string;
  stderr?: string;
  pty?: string;
}

export interface Ended {
  exitCode?: number;
  exited?: boolean;
  status?: string;
  error?: string;
}

/** A message about a command, or about a watched directory. */
export interface Message {
  filesystem?: { name: string; type: string };
  event?: {
    start?: { pid: number };
    data?: Output;
    end?: Ended;
  };
}

/** A message of a Connect stream: one byte of flags, four bytes of length, JSON. */
function envelope(message: object): Uint8Array<ArrayBuffer> {
  const body = new TextEncoder().encode(JSON.stringify(message));
  const whole = new Uint8Array(5 + body.length);
  new DataView(whole.buffer).setUint32(1, body.length);
  whole.set(body, 5);
  return whole;
}

const endFlag = 2;
const headBytes = 5;

/** @throws RametError the error in the last message; LostStream without it */
async function* messagesIn(answer: Answer, silenceMs: number): AsyncGenerator<Message> {
  let parts: Uint8Array[] = [];
  let [length, end] = [0, headBytes];
  for await (const bytes of answer.bytes(silenceMs)) {
    parts.push(bytes);
    length += bytes.length;
    // A large message arrives in many parts, which are joined once.
    if (length < end) continue;
    let held = joined(parts, length);
    for (;;) {
      end = held.length < headBytes ? headBytes : headBytes + new DataView(held.buffer, held.byteOffset).getUint32(1);
      if (end > mostAnswerBytes) throw tooLarge("A message", mostAnswerBytes);
      if (held.length < end) break;
      const body = new TextDecoder().decode(held.subarray(headBytes, end));
      const message = JSON.parse(body) as Message & { error?: object };
      if (((held[0] ?? 0) & endFlag) !== 0) {
        if (message.error !== undefined) throw fromBody(message.error, 200);
        return;
      }
      yield message;
      held = held.subarray(end);
    }
    [parts, length] = [[held], held.length];
  }
  throw new LostStream();
}

function joined(parts: readonly Uint8Array[], length: number): Uint8Array {
  const whole = new Uint8Array(length);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

interface StreamOptions extends RequestOptions {
  user?: string;
  /** The guest ends the stream after this time; 0: never. @default 60 s */
  timeoutMs?: number;
  disconnect: AbortController;
}

/** Opens a stream of messages from the guest. */
export async function openStream(
  guest: Guest,
  method: string,
  message: object,
  { user, timeoutMs = 60_000, requestTimeoutMs, signal, disconnect }: StreamOptions,
): Promise<AsyncGenerator<Message>> {
  // While there is nothing to report, the guest sends messages, so that a lost connection is found.
  const silenceMs = Math.max(requestTimeoutMs ?? guest.silenceMs, 2_000);
  const call = {
    method: "POST",
    body: envelope(message),
    headers: {
      "content-type": "application/connect+json",
      "connect-protocol-version": "1",
      "keepalive-ping-interval": `${Math.min(Math.floor(silenceMs / 2_000), 20)}`,
      ...(timeoutMs > 0 && { "connect-timeout-ms": `${Math.ceil(timeoutMs)}` }),
      ...asUser(user),
    },
    requestTimeoutMs,
    signal: signal === undefined ? disconnect.signal : [signal, disconnect.signal],
    // The guest ends it in time and says so, unless it is silent.
    endMs: endAfter(timeoutMs && timeoutMs + 1_000),
  };
  const answer = await guest.send(`/${method}`, call, (given) => given);
  return messagesIn(answer, silenceMs);
}
