import { RametError } from "../../base/errors.ts";
import type { ErrorCode } from "../../base/error-codes.ts";

/** Why an object store did not do what it was asked: what it answered, or that it did not. */
export interface Refusal {
  /** Of HTTP; absent: there was no answer. */
  status?: number | undefined;
  /** The store's own word, such as `SlowDown`. */
  word?: string | undefined;
  /** What broke where there was no answer. */
  cause?: unknown;
}

/**
 * `passing`: the same request may succeed later. `absent`: there is no such object, or no such part of it. `exists`: there is one where none may be.
 * `denied`: whoever signed the request may not do that, or no longer.
 */
export type RefusalKind = "passing" | "absent" | "exists" | "denied" | "full" | "too-large" | "no-bucket" | "other";

export function kindOfRefusal({ status, word = "" }: Refusal): RefusalKind {
  const kind = kinds.find(({ words, statuses }) => words.test(word) || statuses.includes(status ?? 0))?.kind;
  return kind ?? (status === undefined || status >= 500 ? "passing" : "other");
}

/** Words first where a status has several meanings. */
const kinds: readonly { kind: RefusalKind; words: RegExp; statuses: readonly number[] }[] = [
  // Azure says a conflict for a condition, and that a right is lacking where one to make blobs would write over one.
  { kind: "exists", words: /^(PreconditionFailed|BlobAlreadyExists|UnauthorizedBlobOverwrite)$/, statuses: [412] },
  { kind: "full", words: /quota|^InsufficientStorage|^StorageFull$|^InsufficientCapacity$/i, statuses: [507] },
  { kind: "no-bucket", words: /^(NoSuchBucket|ContainerNotFound)$/, statuses: [] },
  { kind: "too-large", words: /^EntityTooLarge$/, statuses: [413] },
  // Google says it with the status 403, too.
  { kind: "passing", words: /RateLimitExceeded$/i, statuses: [] },
  { kind: "denied", words: /^(ExpiredToken|InvalidToken|AuthorizationHeaderMalformed)$/, statuses: [401, 403] },
  // A conditional PUT beside a deletion, bytes that were changed on the way, a body that came too slowly.
  {
    kind: "passing",
    words: /^(ConditionalRequestConflict|BadDigest|Md5Mismatch|RequestTimeout|SlowDown)$/,
    statuses: [408, 409, 429],
  },
  { kind: "absent", words: /^(NoSuchKey|BlobNotFound)$/, statuses: [404, 416] },
];

/** Why, for a message: the status and the word, and never the URL or the body, which can hold what was signed. */
export function sayRefusal({ status, word, cause }: Refusal, who = "the store"): string {
  if (status !== undefined) return `${who} answered ${status}${word === undefined ? "" : ` ${word}`}`;
  return `${who} did not answer: ${cause instanceof Error ? cause.message : String(cause)}`;
}

/** A refusal that is the same for controllers and cells; the others say what they make of it. */
export function refusalError(what: string, refusal: Refusal): RametError {
  const { code, hint } = answers[kindOfRefusal(refusal)] ?? unavailable;
  return new RametError(code, `${what} failed: ${sayRefusal(refusal)}`, {
    hint,
    retryable: code === "StoreUnavailable",
  });
}

interface Answer {
  code: ErrorCode;
  hint: string;
}

const unavailable: Answer = {
  code: "StoreUnavailable",
  hint: "Look whether the object store runs, can be reached from here, and has the bucket.",
};

const answers: Partial<Record<RefusalKind, Answer>> = {
  full: { code: "StoreFull", hint: "Delete checkpoints that are not needed, or raise the bucket's quota." },
  "too-large": {
    code: "CheckpointTooLarge",
    hint: "Give the sandbox less memory, or keep its checkpoints in a folder that all nodes mount.",
  },
};
