import { RametError } from "../../base/errors.ts";
import { kindOfRefusal, type Refusal, refusalError, type RefusalKind, sayRefusal } from "./refusal.ts";

/** What a controller has asked of a cloud, for a message. */
export interface ClientCall {
  verb: string;
  key?: string;
  /** Whether it changes something: a store that allows to read alone still has what clones need. */
  writes?: boolean;
}

/** How the client of one cloud fails, and what its users can do. */
export interface CloudErrors {
  refusalOf(error: unknown): Refusal;
  /** Whether nobody has said who the controllers are. */
  hasNoCredentials(error: Error): boolean;
  /** How the controllers are given an identity. */
  identityHint: string;
  /** The rights that it needs. */
  rightsHint: string;
}

export interface ClientCalls {
  /** What `operation` gives; what it fails with, as an error that a person can act on. */
  call: <T>(what: ClientCall, operation: () => Promise<T>) => Promise<T>;
  /** The same, and `undefined` where the store answers `expected`. */
  callUnless: <T>(expected: RefusalKind, what: ClientCall, operation: () => Promise<T>) => Promise<T | undefined>;
  /** The chunks of a body, which may break in the middle. */
  chunks: (what: ClientCall, body: AsyncIterable<Uint8Array>) => AsyncGenerator<Uint8Array>;
}

/** Calls of a cloud's own client. What was given up comes back as it is. */
export function clientCalls(store: string, cloud: CloudErrors): ClientCalls {
  async function call<T>(what: ClientCall, operation: () => Promise<T>): Promise<T> {
    try {
      return await operation();
    } catch (error) {
      throw clientError(store, cloud, { what, error });
    }
  }

  return {
    call,
    callUnless: (expected, what, operation) =>
      call(what, () =>
        operation().catch((error: unknown) => {
          if (kindOfRefusal(cloud.refusalOf(error)) !== expected) throw error;
          return undefined;
        }),
      ),
    async *chunks(what, body) {
      try {
        yield* body;
      } catch (error) {
        throw clientError(store, cloud, { what, error });
      }
    },
  };
}

function clientError(
  store: string,
  cloud: CloudErrors,
  { what: { verb, key, writes = false }, error }: { what: ClientCall; error: unknown },
): unknown {
  if (
    (error instanceof RametError && error.code !== "Timeout") ||
    (error instanceof Error && error.name === "AbortError")
  )
    return error;
  const refusal = cloud.refusalOf(error);
  const what = `${verb} ${key === undefined ? store : `${store}/${key}`}`;
  // Azure's client adds lines with numbers of the request.
  const says = error instanceof Error ? `: ${error.message.split("\n", 1)[0]}` : "";
  if (error instanceof Error && cloud.hasNoCredentials(error)) {
    const hint = cloud.identityHint;
    return new RametError("StoreUnavailable", `${what} failed: there are no credentials${says}`, { hint });
  }
  if (kindOfRefusal(refusal) !== "denied") return refusalError(what, refusal);
  const code = writes ? "StoreReadOnly" : "StoreUnavailable";
  return new RametError(code, `${what} failed: ${sayRefusal(refusal)}${says}`, { hint: cloud.rightsHint });
}

/** Does it for all items at once. Where one fails, the others are given up; this has no other end than when all have ended. */
export async function allOrNone<Item, Result>(
  signal: AbortSignal | undefined,
  items: readonly Item[],
  operation: (item: Item, signal: AbortSignal, index: number) => Promise<Result>,
): Promise<Result[]> {
  const giveUp = new AbortController();
  const until = signal === undefined ? giveUp.signal : AbortSignal.any([signal, giveUp.signal]);
  const all = items.map((item, index) => operation(item, until, index));
  try {
    return await Promise.all(all);
  } finally {
    giveUp.abort();
    await Promise.allSettled(all);
  }
}
