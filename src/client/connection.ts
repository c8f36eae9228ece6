import {
  Answer,
  canceled,
  Ending,
  type ErrorBody,
  errorOf,
  fromBody,
  LostStream,
  RametError,
  tooLate,
} from "./answer.ts";
import { eventsIn } from "./streams.ts";

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
  /** The longest time until the answer to a request begins, and without a byte of it. @default 60 s */
  requestTimeoutMs?: number;
  /** Ends the call that gets it, not what is called later. */
  signal?: AbortSignal | undefined;
}

export interface Call {
  method?: string;
  body?: NonNullable<RequestInit["body"]>;
  headers?: Record<string, string>;
  requestTimeoutMs?: number | undefined;
  /** Each of them ends it. */
  signal?: AbortSignal | AbortSignal[] | undefined;
  /** Whether the call can be sent again after a lost answer. */
  repeats?: boolean;
  /** When the call and the reading of its answer end, by `performance.now()`. @default never */
  endMs?: number;
}

/** Reads an answer. One that is lost meanwhile counts as not received. */
type Read<T> = (answer: Answer) => T | Promise<T>;

/** The settings of a connection, with those of the environment. */
export class Connection {
  readonly options: Omit<ConnectionOptions, "signal">;

  constructor({ signal: _, ...given }: ConnectionOptions = {}) {
    const environment = (globalThis as { process?: { env?: Record<string, string | undefined> } }).process?.env ?? {};
    const names = { apiKey: "API_KEY", apiUrl: "API_URL", sandboxUrl: "SANDBOX_URL", domain: "DOMAIN" } as const;
    this.options = { ...given };
    for (const name of Object.keys(names) as (keyof typeof names)[]) {
      const value = given[name] ?? environment[`RAMET_${names[name]}`];
      if (value !== undefined && value !== "") this.options[name] = value;
    }
  }

  /** Calls a route of the API. @throws RametError */
  api<T>(method: string, path: string, body?: object, call: Call = {}): Promise<T> {
    const all = {
      method,
      ...call,
      ...(body !== undefined && { body: JSON.stringify(body) }),
      headers: {
        ...(body !== undefined && { "content-type": "application/json" }),
        ...(method === "POST" && call.repeats === true && { "idempotency-key": crypto.randomUUID() }),
        ...call.headers,
      },
      repeats: call.repeats ?? method !== "POST",
    };
    return this.request(path, all, (answer) => answer.json<T>());
  }

  /** Sends a request to the API with the key. @throws RametError */
  async request<T>(path: string, { headers, ...call }: Call, read: Read<T>): Promise<T> {
    const { apiKey, apiUrl, domain } = this.options;
    if (apiKey === undefined)
      throw new RametError("Unauthorized", "There is no API key", { hint: "Set RAMET_API_KEY" });
    const origin = apiUrl ?? (domain === undefined ? undefined : `https://api.${domain}`);
    if (origin === undefined)
      throw new RametError("InvalidArgument", "There is no address of the client API", { hint: "Set RAMET_API_URL" });
    const url = `${origin.replace(/\/+$/, "")}/ramet/v1${path}`;
    return this.send(url, { ...call, headers: { ...headers, "x-api-key": apiKey } }, read);
  }

  /** Sends a request, again if it can be repeated and was not answered. @throws RametError for each status above 299 */
  async send<T>(url: string, { repeats = false, endMs = Infinity, ...call }: Call, read: Read<T>): Promise<T> {
    const { requestTimeoutMs, signal = [], ...init } = call;
    // It can be read once.
    const isStream = call.body instanceof ReadableStream;
    const silenceMs = requestTimeoutMs ?? this.options.requestTimeoutMs ?? defaultSilenceMs;
    const limits = { silenceMs, endMs, signals: [signal].flat() };
    for (let attempt = 1; ; attempt++) {
      const { value, error, waitMs } = await attemptOf(url, init, new Ending(limits), read);
      if (error === undefined) return value as T;
      const pauseMs = Math.min(Math.max(waitMs, 200 * 2 ** attempt), 5_000);
      const isLast = attempt >= mostAttempts || performance.now() + pauseMs >= endMs;
      if (isLast || isStream || !canRepeat(error, repeats)) throw error;
      await pause(pauseMs, limits.signals);
    }
  }

  /** @returns false if it does not exist: a deletion can be repeated */
  async delete(path: string, options?: RequestOptions): Promise<boolean> {
    try {
      await this.api("DELETE", path, undefined, options);
      return true;
    } catch (error) {
      if (error instanceof RametError && error.code === "NotFound") return false;
      throw error;
    }
  }

  /**
   * Calls a route whose work can take longer than a request, and repeats the same request until it is done.
   * @throws RametError `Timeout`, which does not end the work
   */
  async complete<T>(
    path: string,
    body: object | undefined,
    { waitTimeoutMs = 600_000, signal }: WaitLimit,
  ): Promise<T> {
    const headers = { "idempotency-key": crypto.randomUUID() };
    const call = { headers, signal, repeats: true, endMs: endAfter(waitTimeoutMs) };
    for (const rounds = new Rounds(call); ;) {
      await rounds.next();
      try {
        return await this.api<T>("POST", path, body, call);
      } catch (error) {
        if (!(error instanceof RametError) || error.code !== "Timeout") throw error;
      }
    }
  }

  /**
   * Follows server-sent events until they have a result. After a lost connection, and when the server ends them, it asks again.
   * @throws RametError `Timeout`; the error of what is followed
   */
  async follow<T>(path: string, { endMs, onProgress, signal }: FollowOptions<T>): Promise<T> {
    const call = { method: "GET", signal, repeats: true, endMs };
    for (const rounds = new Rounds(call); ;) {
      await rounds.next();
      const leftMs = Math.ceil(Math.min(endMs - performance.now(), roundMs));
      if (leftMs <= 0) throw tooLate();
      const answer = await this.request(`${path}?timeout_ms=${leftMs}`, call, (given) => given);
      try {
        for await (const { event, data } of eventsIn(answer)) {
          if (event === "result") return data as T;
          if (event === "error") throw fromBody(data as ErrorBody, answer.response.status);
          await onProgress?.(data as T);
        }
      } catch (error) {
        if (!(error instanceof LostStream)) throw error;
      }
    }
  }
}

/** Asks again immediately after a long round, and after short ones more and more rarely. */
class Rounds {
  readonly #call: Pick<Call, "signal"> & { endMs: number };
  #began = -Infinity;
  #short = 0;

  constructor(call: Pick<Call, "signal"> & { endMs: number }) {
    this.#call = call;
  }

  /** @throws RametError `Timeout` */
  async next(): Promise<void> {
    const { endMs, signal = [] } = this.#call;
    const now = performance.now();
    this.#short = now - this.#began < 2_000 ? this.#short + 1 : 0;
    const pauseMs = this.#short === 0 ? 0 : Math.min(100 * 2 ** this.#short, 5_000);
    if (pauseMs > 0) await pause(Math.max(0, Math.min(pauseMs, endMs - now)), [signal].flat());
    this.#began = performance.now();
    if (this.#began >= endMs) throw tooLate();
  }
}

function canRepeat({ code, status }: RametError, isIdempotent: boolean): boolean {
  // A request that was refused for its rate had no effect.
  return status === 429 || (isIdempotent && code !== "Canceled" && [0, 502, 503].includes(status));
}

export const defaultSilenceMs = 60_000;
/** How long the server follows for one request. */
const roundMs = 25_000;
const mostAttempts = 4;

/** @param milliseconds 0: never */
export function endAfter(milliseconds: number): number {
  return milliseconds === 0 ? Infinity : performance.now() + milliseconds;
}

interface Attempt<T> {
  value?: T;
  error?: RametError;
  waitMs: number;
}

async function attemptOf<T>(url: string, init: RequestInit, ending: Ending, read: Read<T>): Promise<Attempt<T>> {
  try {
    const sent = fetch(url, { ...init, signal: ending.signal });
    const answer = new Answer(await ending.within(sent, (cause) => notReachable(url, cause)), ending);
    if (answer.response.ok) return { value: await read(answer), waitMs: 0 };
    const waitMs = 1000 * Number(answer.response.headers.get("retry-after") ?? 0) || 0;
    return { error: await errorOf(answer), waitMs };
  } catch (error) {
    if (error instanceof RametError) return { error, waitMs: 0 };
    throw error;
  }
}

export interface WaitLimit {
  /** How long to wait; 0: no limit. The end of the wait does not end the work. @default 10 minutes */
  waitTimeoutMs?: number | undefined;
  signal?: AbortSignal | undefined;
}

export interface FollowOptions<T> {
  endMs: number;
  /** Called with each new state. */
  onProgress?: ((state: T) => void | Promise<void>) | undefined;
  signal?: AbortSignal | undefined;
}

async function pause(milliseconds: number, signals: readonly AbortSignal[]): Promise<void> {
  const ending = new Ending({ silenceMs: 0, endMs: Infinity, signals });
  await new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    ending.signal.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });
  ending.close();
  if (ending.signal.aborted) throw canceled();
}

/**
 * Waits for work that nothing ends, and discards what it returns too late.
 * @throws RametError `Timeout` or `Canceled`; the error of the work
 */
export async function orDiscarded<T>(
  start: () => Promise<T>,
  { endMs, signal }: Pick<FollowOptions<T>, "endMs" | "signal">,
  discard: (late: T) => Promise<unknown>,
): Promise<T> {
  if (signal?.aborted === true) throw canceled();
  const work = start();
  const ending = new Ending({ silenceMs: 0, endMs, signals: signal === undefined ? [] : [signal] });
  const ended = new Promise<never>((_, reject) => {
    ending.signal.addEventListener("abort", () => {
      reject(canceled());
    });
  });
  try {
    return await ending.within(Promise.race([work, ended]), (cause) => cause as RametError);
  } catch (error) {
    work.then(discard).catch(() => undefined);
    throw error;
  } finally {
    ending.close();
  }
}

function notReachable(url: string, cause: unknown): RametError {
  const why = cause instanceof Error ? cause.message : String(cause);
  return new RametError("Unavailable", `${url} is not reachable: ${why}`, { cause, retryable: true });
}

/** Sends requests to port 49983 of a sandbox, whose guest has the API of E2B's envd. */
export interface Guest {
  /** The longest time without a byte, unless a call has another one. */
  readonly silenceMs: number;
  send<T>(path: string, call: Call, read: Read<T>): Promise<T>;
}

export interface RequestOptions {
  /** The longest time until the answer to a request begins, and without a byte of it. */
  requestTimeoutMs?: number | undefined;
  signal?: AbortSignal | undefined;
}

/** The header by which a guest runs commands and owns files as another user. */
export function asUser(user: string | undefined): Record<string, string> {
  return user === undefined ? {} : { authorization: `Basic ${btoa(`${user}:`)}` };
}

/** Calls a method of the guest. */
export function unary<T>(
  guest: Guest,
  method: string,
  message: object,
  { user, ...options }: RequestOptions & { user?: string | undefined } = {},
): Promise<T> {
  const call = {
    method: "POST",
    body: JSON.stringify(message),
    headers: { "content-type": "application/json", "connect-protocol-version": "1", ...asUser(user) },
    ...options,
  };
  return guest.send(`/${method}`, call, (answer) => answer.json<T>());
}
