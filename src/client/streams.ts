import { type Answer, fromBody, LostStream, mostAnswerBytes, tooLarge } from "./answer.ts";

/** The server-sent events of an answer. */
export async function* eventsIn(answer: Answer): AsyncGenerator<{ event: string; data: unknown }> {
  const decoder = new TextDecoder();
  let held: string[] = [];
  let [length, last] = [0, ""];
  for await (const bytes of answer.bytes(eventSilenceMs)) {
    const text = decoder.decode(bytes, { stream: true });
    held.push(text);
    length += text.length;
    const isWhole = `${last}${text}`.includes("\n\n");
    last = text.at(-1) ?? last;
    if (!isWhole && length > mostAnswerBytes) throw tooLarge("An event", mostAnswerBytes);
    // A large event arrives in many parts, which are joined once.
    if (!isWhole) continue;
    const parts = held.join("").split("\n\n");
    held = parts.splice(-1);
    length = held[0]?.length ?? 0;
    for (const part of parts) {
      const found = /^event: (\w+)\ndata: (.*)$/s.exec(part);
      if (found !== null) yield { event: found[1] ?? "", data: JSON.parse(found[2] ?? "null") as unknown };
    }
  }
}

/** While there are no events, the server sends comments more often. */
const eventSilenceMs = 40_000;

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

/** A message about a command. */
export interface Message {
  event?: {
    start?: { pid: number };
    data?: Output;
    end?: Ended;
  };
}

/** A message of a Connect stream: one byte of flags, four bytes of length, JSON. */
export function envelope(message: object): Uint8Array<ArrayBuffer> {
  const body = new TextEncoder().encode(JSON.stringify(message));
  const whole = new Uint8Array(5 + body.length);
  new DataView(whole.buffer).setUint32(1, body.length);
  whole.set(body, 5);
  return whole;
}

const endFlag = 2;
const headBytes = 5;

/** @throws RametError the error in the last message; LostStream without it */
export async function* messagesIn(answer: Answer, silenceMs: number): AsyncGenerator<Message> {
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
