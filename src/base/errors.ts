import type { ErrorCode } from "./error-codes.ts";

export interface RametErrorOptions {
  /** The next step of the reader: one imperative sentence without a full stop, because `describe` continues it. */
  hint?: string | undefined;
  /** Whether the same call may succeed later although nobody changes anything. @default false */
  retryable?: boolean | undefined;
  cause?: unknown;
}

/**
 * The only error class of Ramet. The message says what failed and then why, without a full stop:
 * `The restore timed out after 60 s`. The hint says what to do. The code is stable across releases, and programs can
 * depend on it.
 */
export class RametError extends Error {
  override readonly name = "RametError";
  readonly code: ErrorCode;
  readonly hint?: string;
  readonly retryable: boolean;

  constructor(code: ErrorCode, message: string, options: RametErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    if (options.hint !== undefined) this.hint = options.hint;
    this.retryable = options.retryable ?? false;
  }

  /**
   * Converts anything thrown to a RametError. Returns a RametError unchanged; other errors become `Internal`.
   * @param context what failed, as a prefix of the message
   */
  static from(error: unknown, context?: string): RametError {
    if (error instanceof RametError) return error;
    const why = textOfError(error);
    return new RametError("Internal", context === undefined ? why : `${context}: ${why}`, { cause: error });
  }

  /** Joins message, hint and code to one line for a condition or a terminal: `message. hint [code]`. */
  describe(): string {
    return this.hint === undefined ? `${this.message} [${this.code}]` : `${this.message}. ${this.hint} [${this.code}]`;
  }
}

/** Handles a rejection: resolves with undefined for errors with one of these codes, and throws every other one. */
export function unlessCode(...codes: ErrorCode[]): (error: unknown) => undefined {
  return (error) => {
    if (!codes.includes(RametError.from(error).code)) throw error;
    return undefined;
  };
}

/** What a call returns, or `otherwise` if it throws: for texts that anybody can write, and files that may be missing. */
export function resultOr<T, Otherwise>(run: () => T, otherwise: Otherwise): T | Otherwise {
  try {
    return run();
  } catch {
    return otherwise;
  }
}

/** What a call returns, or the error that it throws, for a caller that reports it. */
export function resultOrError<T>(run: () => T): T | RametError {
  try {
    return run();
  } catch (error) {
    return RametError.from(error);
  }
}

/** Whether a promise is fulfilled, where the reason of a rejection does not matter. */
export function isFulfilled(work: Promise<unknown>): Promise<boolean> {
  return work.then(
    () => true,
    () => false,
  );
}

/** The message of anything thrown, without the name of its class. */
export function textOfError(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Whether an error, or one that caused it, has a code of Node.js such as `ECONNREFUSED`. */
export function hasSystemCode(error: unknown, code: string): boolean {
  if (!(error instanceof Error)) return false;
  return ("code" in error && error.code === code) || hasSystemCode(error.cause, code);
}

/** Why a file cannot be read, for a message such as `Cannot read a.yaml: it does not exist`. */
export function whyUnreadable(error: unknown): string {
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  return fileProblems.get(code) ?? textOfError(error);
}

const fileProblems: ReadonlyMap<unknown, string> = new Map([
  ["ENOENT", "it does not exist"],
  ["EISDIR", "it is a directory"],
  ["EACCES", "you do not have the permission to read it"],
]);

/** Returns the error code of a failed system call, such as `ENOENT`. `undefined` for other errors. */
export function errnoOf(error: unknown): string | undefined {
  const code = error instanceof Error ? (error as NodeJS.ErrnoException).code : undefined;
  return typeof code === "string" ? code : undefined;
}
