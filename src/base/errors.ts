import type { ErrorCode } from "./error-codes.ts";

export interface RametErrorOptions {
  /** What the reader can do about it: one sentence. */
  hint?: string;
  /** Whether the same call may succeed later without anybody changing anything. */
  retryable?: boolean;
  cause?: unknown;
}

/**
 * The one error class of Ramet. `message` begins with what failed and goes on with why; `hint` says what to do;
 * `code` is stable.
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

  /** Anything thrown, as a RametError; one that already is comes back unchanged. */
  static from(error: unknown, context?: string): RametError {
    if (error instanceof RametError) return error;
    const why = error instanceof Error ? error.message : String(error);
    return new RametError("Internal", context === undefined ? why : `${context}: ${why}`, { cause: error });
  }

  /** Code, message and hint in one line, as a condition or a terminal shows it. */
  describe(): string {
    return this.hint === undefined ? `${this.message} [${this.code}]` : `${this.message}. ${this.hint} [${this.code}]`;
  }
}
