import { RametError } from "../../base/errors.ts";
import { kindOfRefusal, type Refusal, refusalError, type RefusalKind, describeRefusal } from "./refusal.ts";

/** A call of a cloud API by a controller, for error messages. */
export interface ClientCall {
  verb: string;
  key?: string;
  /** Whether the call changes data. Clones can still use a store that is only readable. */
  writes?: boolean;
}

export interface CloudErrors {
  refusalOf(error: unknown): Refusal;
  hasNoCredentials(error: Error): boolean;
  identityHint: string;
  rightsHint: string;
}

/** Wraps calls of a cloud's client. Does not convert the errors of aborted calls. */
export function clientCalls(store: string, cloud: CloudErrors) {
  /** Runs `operation` and converts its errors. */
  async function call<T>(what: ClientCall, operation: () => Promise<T>): Promise<T> {
    try {
      return await operation();
    } catch (error) {
      throw clientError(store, cloud, { what, error });
    }
  }

  return {
    call,
    /** Like `call`, but returns `undefined` for the refusal `expected`. */
    callUnless: <T>(expected: RefusalKind, what: ClientCall, operation: () => Promise<T>) =>
      call(what, () =>
        operation().catch((error: unknown) => {
          if (kindOfRefusal(cloud.refusalOf(error)) !== expected) throw error;
          return undefined;
        }),
      ),
    /** Yields the chunks of a body and converts its errors. */
    async *chunks(this: void, what: ClientCall, body: AsyncIterable<Uint8Array>) {
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
  // Azure's client adds lines with request ids.
  const reason = error instanceof Error ? `: ${error.message.split("\n", 1)[0]}` : "";
  if (error instanceof Error && cloud.hasNoCredentials(error)) {
    const hint = cloud.identityHint;
    return new RametError("StoreUnavailable", `${what} failed: no credentials found${reason}`, { hint });
  }
  if (kindOfRefusal(refusal) !== "denied") return refusalError(what, refusal);
  const code = writes ? "StoreReadOnly" : "StoreUnavailable";
  return new RametError(code, `${what} failed: ${describeRefusal(refusal)}${reason}`, { hint: cloud.rightsHint });
}

/** Runs `operation` for all items in parallel. If one fails, aborts the others. Waits until all have ended. */
export async function allOrNone<Item, Result>(
  signal: AbortSignal | undefined,
  items: readonly Item[],
  operation: (item: Item, signal: AbortSignal, index: number) => Promise<Result>,
): Promise<Result[]> {
  const failed = new AbortController();
  const either = signal === undefined ? failed.signal : AbortSignal.any([signal, failed.signal]);
  const all = items.map((item, index) => operation(item, either, index));
  try {
    return await Promise.all(all);
  } finally {
    failed.abort();
    await Promise.allSettled(all);
  }
}
