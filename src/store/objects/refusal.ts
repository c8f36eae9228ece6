import { RametError } from "../../base/errors.ts";
import type { ErrorCode } from "../../base/error-codes.ts";

/** An error response of an object store, or the failure to get a response. */
export interface Refusal {
  /** The HTTP status. Absent if there was no response. */
  status?: number | undefined;
  /** The store's error code, such as `SlowDown`. */
  word?: string | undefined;
  /** The error if there was no response. */
  cause?: unknown;
}

/**
 * `transient`: the same request can succeed later. `absent`: the object or the range does not exist. `exists`: the object exists
 * but must not. `denied`: the signer of the request lacks the permission, or the signature has expired.
 */
export type RefusalKind = "transient" | "absent" | "exists" | "denied" | "full" | "too-large" | "no-bucket" | "other";

export function kindOfRefusal({ status, word = "" }: Refusal): RefusalKind {
  const kind = kinds.find(({ words, statuses }) => words.test(word) || statuses.includes(status ?? 0))?.kind;
  return kind ?? (status === undefined || status >= 500 ? "transient" : "other");
}

/** The error code takes precedence over the status, because some statuses have several meanings. */
const kinds: readonly { kind: RefusalKind; words: RegExp; statuses: readonly number[] }[] = [
  // Azure responds with 409 to a failed condition, and with 403 when a permission to create blobs would overwrite one.
  { kind: "exists", words: /^(PreconditionFailed|BlobAlreadyExists|UnauthorizedBlobOverwrite)$/, statuses: [412] },
  { kind: "full", words: /quota|^InsufficientStorage|^StorageFull$|^InsufficientCapacity$/i, statuses: [507] },
  { kind: "no-bucket", words: /^(NoSuchBucket|ContainerNotFound)$/, statuses: [] },
  { kind: "too-large", words: /^EntityTooLarge$/, statuses: [413] },
  // Google also uses the status 403.
  { kind: "transient", words: /RateLimitExceeded$/i, statuses: [] },
  { kind: "denied", words: /^(ExpiredToken|InvalidToken|AuthorizationHeaderMalformed)$/, statuses: [401, 403] },
  // A conditional PUT during a deletion, bytes that changed in transit, a body that arrived too slowly.
  {
    kind: "transient",
    words: /^(ConditionalRequestConflict|BadDigest|Md5Mismatch|RequestTimeout|SlowDown)$/,
    statuses: [408, 409, 429],
  },
  { kind: "absent", words: /^(NoSuchKey|BlobNotFound)$/, statuses: [404, 416] },
];

/** Describes a refusal for messages. Omits the URL and the body, which can contain signatures. */
export function describeRefusal({ status, word, cause }: Refusal, server = "the store"): string {
  if (status !== undefined) return `${server} responded with ${status}${word === undefined ? "" : ` ${word}`}`;
  return `${server} did not respond: ${cause instanceof Error ? cause.message : String(cause)}`;
}

/** The error for a refusal. Controllers and cells handle the kind `denied` differently before they call this. */
export function refusalError(what: string, refusal: Refusal): RametError {
  const { code, hint } = templates[kindOfRefusal(refusal)] ?? unavailable;
  return new RametError(code, `${what} failed: ${describeRefusal(refusal)}`, {
    hint,
    retryable: code === "StoreUnavailable",
  });
}

interface ErrorTemplate {
  code: ErrorCode;
  hint: string;
}

const unavailable: ErrorTemplate = {
  code: "StoreUnavailable",
  hint: "Check that the object store is running and reachable from here, and that the bucket exists",
};

export const bucketSpaceHint = "Delete checkpoints that you do not need, or raise the bucket's quota";

const templates: Partial<Record<RefusalKind, ErrorTemplate>> = {
  full: { code: "StoreFull", hint: bucketSpaceHint },
  "too-large": {
    code: "CheckpointTooLarge",
    hint: "Give the sandbox less memory, or use a directory that all nodes mount as the store",
  },
};
