/** An error of Ramet, with one of its codes, which are stable. */
export class RametError extends Error {
  override readonly name: string = "RametError";
  readonly code: string;
  /** What to do. */
  readonly hint: string | undefined;
  /** Whether the same call may succeed later although nobody changes anything. */
  readonly retryable: boolean;
  /** Of the HTTP answer; 0 if there was none. */
  readonly status: number;

  constructor(code: string, message: string, options: ErrorOptions & Partial<ErrorBody> & { status?: number } = {}) {
    super(message, options);
    this.code = code;
    this.hint = options.hint;
    this.retryable = options.retryable ?? false;
    this.status = options.status ?? 0;
  }
}

export interface ErrorBody {
  code?: string;
  message?: string;
  hint?: string;
  retryable?: boolean;
}

/** The end of a stream before its last message. */
export class LostStream extends RametError {
  constructor(cause?: unknown, code = "Unavailable", message = "The connection was lost") {
    super(code, message, { cause, retryable: true });
  }
}

/** An answer that begins to arrive. */
export class Answer {
  readonly response: Response;
  readonly #ending: Ending;

  constructor(response: Response, ending: Ending) {
    this.response = response;
    this.#ending = ending;
  }

  /** The bytes, which every environment can read from its stream in this way. @throws RametError; LostStream */
  async *bytes(silenceMs = this.#ending.silenceMs): AsyncGenerator<Uint8Array<ArrayBuffer>> {
    const body: ReadableStream<Uint8Array<ArrayBuffer>> = this.response.body ?? new Blob([]).stream();
    const reader = body.getReader();
    try {
      for (;;) {
        const next = this.#ending.within(reader.read(), (cause) => new LostStream(cause), silenceMs);
        const { done, value } = await next;
        if (done) return;
        yield value;
      }
    } finally {
      this.#ending.close();
      void reader.cancel().catch(() => undefined);
    }
  }

  /** @throws RametError `OutOfRange` */
  async collected(mostBytes = mostAnswerBytes): Promise<Uint8Array<ArrayBuffer>> {
    const parts: Uint8Array<ArrayBuffer>[] = [];
    let length = 0;
    for await (const bytes of this.bytes()) {
      length += bytes.length;
      if (length > mostBytes) throw tooLarge("The answer", mostBytes);
      parts.push(bytes);
    }
    return new Uint8Array(await new Blob(parts).arrayBuffer());
  }

  async text(mostBytes?: number): Promise<string> {
    return new TextDecoder().decode(await this.collected(mostBytes));
  }

  /** Undefined without a body. */
  async json<T>(): Promise<T> {
    const text = await this.text();
    try {
      return (text === "" ? undefined : JSON.parse(text)) as T;
    } catch (cause) {
      throw new RametError("Internal", `The server has not answered with JSON: ${text.slice(0, 200)}`, { cause });
    }
  }
}

export interface Limits {
  /** The longest time until the answer begins, and between its bytes; 0: none until it begins. */
  silenceMs: number;
  endMs: number;
  signals: readonly AbortSignal[];
}

/** Ends a request and the reading of its answer: when a caller aborts it, at its end, or after a silence. */
export class Ending {
  readonly #controller = new AbortController();
  readonly #limits: Limits;

  constructor(limits: Limits) {
    this.#limits = limits;
    for (const each of limits.signals) each.addEventListener("abort", this.#abort);
    if (limits.signals.some((each) => each.aborted)) this.#abort();
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** The longest time between two bytes. */
  get silenceMs(): number {
    return this.#limits.silenceMs === 0 ? 60_000 : this.#limits.silenceMs;
  }

  /** Waits for what the server sends next. @throws RametError `Canceled` or `Timeout`, else what `lost` returns */
  async within<T>(work: Promise<T>, lost: (cause: unknown) => RametError, silenceMs = this.#limits.silenceMs) {
    const leftMs = Math.max(0, this.#limits.endMs - performance.now());
    const quietMs = silenceMs === 0 ? Infinity : silenceMs;
    const timer = setTimeout(this.#abort, Math.min(leftMs, quietMs, mostMilliseconds));
    try {
      return await work;
    } catch (cause) {
      this.close();
      if (this.#limits.signals.some((each) => each.aborted)) throw canceled(cause);
      if (!this.signal.aborted) throw lost(cause);
      if (leftMs <= quietMs) throw tooLate(cause);
      throw new LostStream(cause, "Timeout", `The server has not answered for ${quietMs} ms`);
    } finally {
      clearTimeout(timer);
    }
  }

  close(): void {
    for (const each of this.#limits.signals) each.removeEventListener("abort", this.#abort);
  }

  readonly #abort = () => {
    this.#controller.abort();
  };
}

/** Of an answer that is collected, and of an event or a message in a stream. */
export const mostAnswerBytes = 64 * 1024 * 1024;
/** The longest time of a timer. */
const mostMilliseconds = 2 ** 31 - 1;

/** The error of an answer above 299. */
export async function errorOf(answer: Answer): Promise<RametError> {
  const text = await answer.text();
  let body: ErrorBody = {};
  try {
    body = JSON.parse(text) as ErrorBody;
  } catch {
    // A proxy has answered.
  }
  return fromBody(body, answer.response.status, text);
}

/** The code of a guest is one of Connect, in lower case. */
export function fromBody(body: ErrorBody, status: number, text = ""): RametError {
  const code = typeof body.code === "string" ? body.code : (codes[status] ?? "Internal");
  const message = body.message ?? (text.slice(0, 200) || `The server answered with the status ${status}`);
  return new RametError(connectCodes[code] ?? code, message, { ...body, status });
}

const codes: Record<number, string> = {
  400: "InvalidArgument",
  401: "Unauthorized",
  403: "Forbidden",
  404: "NotFound",
  409: "Conflict",
  429: "TooManyRequests",
  502: "GuestUnreachable",
  503: "Unavailable",
  504: "Timeout",
};

const connectCodes: Record<string, string> = {
  not_found: "NotFound",
  invalid_argument: "InvalidArgument",
  already_exists: "AlreadyExists",
  permission_denied: "Forbidden",
  unauthenticated: "Unauthorized",
  deadline_exceeded: "Timeout",
  unavailable: "Unavailable",
};

export function tooLarge(what: string, bytes: number): RametError {
  return new RametError("OutOfRange", `${what} has more than ${bytes} bytes`, {
    hint: "Raise the limit, or read less",
  });
}

export function tooLate(cause?: unknown): RametError {
  return new RametError("Timeout", "It has not ended in time", { cause, retryable: true });
}

export function canceled(cause?: unknown): RametError {
  return new RametError("Canceled", "The caller has aborted it", { cause });
}
