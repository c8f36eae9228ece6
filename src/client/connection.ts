/** How a client reaches Ramet. What is left out is read from the environment variables RAMET_API_KEY and so on. */
export interface ConnectionOptions {
  /** RAMET_API_KEY: a key that `ramet key create` printed. */
  apiKey?: string;
  /** RAMET_API_URL: the address of the client API. @default `https://api.<domain>` */
  apiUrl?: string;
  /** RAMET_SANDBOX_URL: the address of a gateway. @default the host names of the sandboxes, `https://<port>-<id>.<domain>` */
  sandboxUrl?: string;
  /** RAMET_DOMAIN: the domain of the gateway. */
  domain?: string;
  /** The time limit of one request until its answer begins. @default 60 s */
  requestTimeoutMs?: number;
  /** Ends what waits for an answer. */
  signal?: AbortSignal;
}

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

export interface Call {
  method?: string;
  body?: NonNullable<RequestInit["body"]>;
  headers?: Record<string, string>;
  requestTimeoutMs?: number | undefined;
  signal?: AbortSignal | undefined;
  /** Whether the call can be sent again after a lost answer. */
  repeats?: boolean;
}

/** The settings of a connection, with those of the environment. */
export class Connection {
  readonly options: ConnectionOptions;

  constructor(given: ConnectionOptions = {}) {
    const environment = (globalThis as { process?: { env?: Record<string, string | undefined> } }).process?.env ?? {};
    const names = { apiKey: "API_KEY", apiUrl: "API_URL", sandboxUrl: "SANDBOX_URL", domain: "DOMAIN" } as const;
    this.options = { ...given };
    for (const name of Object.keys(names) as (keyof typeof names)[]) {
      const value = given[name] ?? environment[`RAMET_${names[name]}`];
      if (value !== undefined && value !== "") this.options[name] = value;
    }
  }

  /** Calls a route of the API. @throws RametError */
  async api<T>(method: string, path: string, body?: object, call: Call = {}): Promise<T> {
    const response = await this.request(path, {
      method,
      ...call,
      ...(body !== undefined && { body: JSON.stringify(body) }),
      headers: {
        ...(body !== undefined && { "content-type": "application/json" }),
        ...(method === "POST" && call.repeats === true && { "idempotency-key": crypto.randomUUID() }),
      },
      repeats: call.repeats ?? method !== "POST",
    });
    return (response.status === 204 ? undefined : await response.json()) as T;
  }

  request(path: string, { headers, ...call }: Call): Promise<Response> {
    const { apiKey, apiUrl, domain } = this.options;
    if (apiKey === undefined)
      throw new RametError("Unauthorized", "There is no API key", { hint: "Set RAMET_API_KEY" });
    const origin = apiUrl ?? (domain === undefined ? undefined : `https://api.${domain}`);
    if (origin === undefined)
      throw new RametError("InvalidArgument", "There is no address of the client API", { hint: "Set RAMET_API_URL" });
    const url = `${origin.replace(/\/+$/, "")}/ramet/v1${path}`;
    return this.send(url, { ...call, headers: { ...headers, "x-api-key": apiKey } });
  }

  /** Sends a request, again if it can be repeated and was not answered. @throws RametError for each status above 299 */
  async send(url: string, { repeats = false, ...call }: Call): Promise<Response> {
    for (let attempt = 1; ; attempt++) {
      const { response, error, waitMs = 0 } = await this.#attempt(url, call);
      if (error === undefined) return response;
      // A request that was refused for its rate had no effect.
      const again = error.status === 429 || (repeats && [0, 502, 503].includes(error.status));
      if (!again || error.code === "Canceled" || attempt >= mostAttempts) throw error;
      await pause(Math.min(Math.max(waitMs, 200 * 2 ** attempt), 5_000), this.#signals(call.signal));
    }
  }

  async #attempt(url: string, { requestTimeoutMs, signal, ...call }: Omit<Call, "repeats">): Promise<Attempt> {
    const limit = requestTimeoutMs ?? this.options.requestTimeoutMs ?? 60_000;
    const given = this.#signals(signal);
    const late = new AbortController();
    const timer = setTimeout(
      () => {
        late.abort();
      },
      limit === 0 ? mostMilliseconds : limit,
    );
    try {
      const response = await fetch(url, { ...call, signal: AbortSignal.any([...given, late.signal]) });
      if (response.ok) return { response };
      const waitMs = 1000 * Number(response.headers.get("retry-after") ?? 0) || 0;
      return { error: await errorOf(response), waitMs };
    } catch (cause) {
      return { error: lost(url, cause, late.signal.aborted, given) };
    } finally {
      clearTimeout(timer);
    }
  }

  #signals(signal: AbortSignal | undefined): AbortSignal[] {
    return [signal, this.options.signal].filter((each) => each !== undefined);
  }

  /**
   * Follows server-sent events until they have a result. After a lost connection, and when the server ends them, it asks again.
   * @throws RametError `Timeout` after `timeoutMs`; the error of what is followed
   */
  async follow<T>(path: string, { timeoutMs = 0, onProgress, signal }: FollowOptions<T>): Promise<T> {
    const end = timeoutMs === 0 ? Infinity : Date.now() + timeoutMs;
    for (;;) {
      const leftMs = Math.ceil(Math.min(end - Date.now(), roundMs));
      if (leftMs <= 0) throw new RametError("Timeout", `It has not ended after ${timeoutMs} ms`, { retryable: true });
      const response = await this.request(`${path}?timeout_ms=${leftMs}`, { method: "GET", signal, repeats: true });
      try {
        for await (const { event, data } of eventsIn(response)) {
          if (event === "result") return data as T;
          if (event === "error") throw fromBody(data as ErrorBody, response.status);
          await onProgress?.(data as T);
        }
      } catch (error) {
        if (!(error instanceof LostStream)) throw error;
        await pause(500, this.#signals(signal));
      }
    }
  }
}

/** How long the server follows for one request. */
const roundMs = 25_000;
const mostAttempts = 4;
/** The longest time of a timer. */
const mostMilliseconds = 2 ** 31 - 1;

type Attempt =
  | { response: Response; error?: undefined; waitMs?: undefined }
  | { response?: undefined; error: RametError; waitMs?: number };

export interface FollowOptions<T> {
  /** 0: no limit. */
  timeoutMs?: number | undefined;
  /** Called with each new state. */
  onProgress?: ((state: T) => void | Promise<void>) | undefined;
  signal?: AbortSignal | undefined;
}

async function errorOf(response: Response): Promise<RametError> {
  const text = await response.text().catch(() => "");
  let body: ErrorBody = {};
  try {
    body = JSON.parse(text) as ErrorBody;
  } catch {
    // A proxy has answered.
  }
  return fromBody(body, response.status, text);
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

function lost(url: string, cause: unknown, isLate: boolean, given: AbortSignal[]): RametError {
  const why = cause instanceof Error ? cause.message : String(cause);
  if (given.some((each) => each.aborted)) return new RametError("Canceled", "The caller has aborted it", { cause });
  if (isLate) return new RametError("Timeout", `${url} has not answered in time`, { cause, retryable: true });
  return new RametError("Unavailable", `${url} is not reachable: ${why}`, { cause, retryable: true });
}

async function pause(milliseconds: number, given: AbortSignal[]): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, milliseconds));
  if (given.some((each) => each.aborted)) throw new RametError("Canceled", "The caller has aborted it");
}

/** The end of a stream before its last message. */
export class LostStream extends RametError {
  constructor(cause?: unknown) {
    super("Unavailable", "The connection was lost", { cause, retryable: true });
  }
}

/** The bytes of an answer, which every environment can read from its stream in this way. @throws LostStream */
export async function* bytesOf(response: Response): AsyncGenerator<Uint8Array> {
  const reader = (response.body as ReadableStream<Uint8Array> | null)?.getReader();
  if (reader === undefined) return;
  try {
    for (;;) {
      const { done, value } = await reader.read().catch((cause: unknown) => {
        throw new LostStream(cause);
      });
      if (done) return;
      yield value;
    }
  } finally {
    void reader.cancel().catch(() => undefined);
  }
}

async function* eventsIn(response: Response): AsyncGenerator<{ event: string; data: unknown }> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const bytes of bytesOf(response)) {
    text += decoder.decode(bytes, { stream: true });
    const parts = text.split("\n\n");
    text = parts.pop() ?? "";
    for (const part of parts) {
      const found = /^event: (\w+)\ndata: (.*)$/s.exec(part);
      if (found !== null) yield { event: found[1] ?? "", data: JSON.parse(found[2] ?? "null") as unknown };
    }
  }
}

/** Sends requests to port 49983 of a sandbox, whose guest has the API of E2B's envd. */
export interface Guest {
  send(path: string, call: Call): Promise<Response>;
}

export interface RequestOptions {
  /** The time limit of one request until its answer begins. */
  requestTimeoutMs?: number;
  signal?: AbortSignal;
}

/** The header by which a guest runs commands and owns files as another user. */
export function asUser(user: string | undefined): Record<string, string> {
  return user === undefined ? {} : { authorization: `Basic ${btoa(`${user}:`)}` };
}

/** Calls a method of the guest. */
export async function unary<T>(
  guest: Guest,
  method: string,
  message: object,
  options: RequestOptions & { user?: string | undefined } = {},
) {
  const { user, requestTimeoutMs, signal } = options;
  const response = await guest.send(`/${method}`, {
    method: "POST",
    body: JSON.stringify(message),
    headers: { "content-type": "application/json", "connect-protocol-version": "1", ...asUser(user) },
    requestTimeoutMs,
    signal,
  });
  return (await response.json()) as T;
}
