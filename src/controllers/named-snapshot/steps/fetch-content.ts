import { createHash } from "node:crypto";
import { createReadStream, createWriteStream } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { isIP } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Readable, Transform } from "node:stream";
import { pipeline } from "node:stream/promises";
import { Agent, request } from "undici";
import { RametError } from "../../../base/errors.ts";
import { guardedLookup, publicOnly } from "../../../base/special-addresses.ts";

/**
 * Fetches a URL into a temporary file and returns its content if it has the digest.
 * @throws RametError `InvalidArgument` for another digest or a file that is too large, `NotFound` for an HTTP error,
 *   `Unavailable` when the server is unreachable
 */
export async function fetchContent(fetch: PublicFetch, { url, sha256, signal }: FetchRequest): Promise<Readable> {
  const body = await fetch(url, signal);
  const directory = await mkdtemp(join(tmpdir(), "ramet-fetch-"));
  const path = join(directory, "content");
  const remove = (): void => {
    rm(directory, { recursive: true, force: true }).catch(() => undefined);
  };
  try {
    const { stream, digest } = hashed(mostBytes, () => tooMuch(url));
    await pipeline(body, stream, createWriteStream(path), { signal });
    const found = digest();
    if (found !== sha256) throw otherBytes(url, found);
    return createReadStream(path).once("close", remove);
  } catch (error) {
    remove();
    throw error instanceof RametError ? error : broken(url, error);
  }
}

interface FetchRequest {
  url: string;
  /** 64 hex digits. */
  sha256: string;
  signal: AbortSignal;
}

/** Passes bytes on, up to a limit, and computes their digest: a sandbox and a server can send without end. */
export function hashed(limitBytes: number, tooLarge: () => RametError): { stream: Transform; digest: () => string } {
  const hash = createHash("sha256");
  let bytes = 0;
  const stream = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      bytes += chunk.length;
      hash.update(chunk);
      if (bytes > limitBytes) done(tooLarge());
      else done(null, chunk);
    },
  });
  return { stream, digest: () => hash.digest("hex") };
}

const mostBytes = 1024 ** 3;

function otherBytes(url: string, found: string): RametError {
  return new RametError("InvalidArgument", `The sha256 of ${url} differs: it is ${found}`, {
    hint: "If the file was changed on purpose, set its new sha256 in the step",
  });
}

function tooMuch(url: string): RametError {
  return new RametError("InvalidArgument", `${url} is larger than 1 GiB`, {
    hint: "Download it in a run step inside the sandbox",
  });
}

function broken(url: string, cause: unknown): RametError {
  return new RametError("Unavailable", `Fetching ${url} failed: ${RametError.from(cause).message}`, {
    retryable: true,
    cause,
  });
}

/** Returns the response body of a GET. @throws RametError `Forbidden`, `NotFound`, `Unavailable` */
export type PublicFetch = (url: string, signal: AbortSignal) => Promise<Readable>;

interface PublicFetchOptions {
  clusterRanges?: readonly string[] | undefined;
  isAllowed?: (address: string) => boolean;
}

/**
 * Fetches URLs on behalf of users from the controller's network, so it allows public addresses only: not those of the node,
 * the cluster, private networks or cloud metadata services, also behind a name or a redirect.
 * @param options.clusterRanges further IPv4 ranges that are not allowed: those of the cluster's Pods, Services and nodes
 * @param options.isAllowed replaces the check of addresses in tests
 */
export function publicFetch(options: PublicFetchOptions = {}): PublicFetch {
  const isAllowed = options.isAllowed ?? publicOnly(options.clusterRanges);
  const dispatcher = new Agent({
    connect: { lookup: guardedLookup(isAllowed, notPublic), timeout: 10_000 },
    pipelining: 0,
  });
  return async (url, signal) => {
    for (let hops = 0, next = url; hops <= mostRedirects; hops++) {
      const { hostname, protocol } = new URL(next);
      const literal = hostname.replace(/^\[|\]$/g, "");
      if (!["http:", "https:"].includes(protocol)) throw refused(url, `${protocol} is neither http nor https`);
      if (isIP(literal) !== 0 && !isAllowed(literal)) throw refused(url, `${literal} is not a public address`);
      const { statusCode, headers, body } = await request(next, { dispatcher, signal }).catch((error: unknown) => {
        throw unreachable(url, error);
      });
      if (statusCode === 200) return body;
      await body.dump();
      const { location } = headers;
      if (statusCode < 300 || statusCode >= 400 || typeof location !== "string") throw noFile(url, statusCode);
      next = new URL(location, next).href;
    }
    throw refused(url, `more than ${mostRedirects} redirects`);
  };
}

const mostRedirects = 5;

const notPublic = (hostname: string) => refused(hostname, "none of its addresses is public");

function refused(url: string, why: string): RametError {
  return new RametError("Forbidden", `Cannot fetch ${url}: ${why}`, {
    hint: "Download it in a run step, which uses the network of the sandbox and its egress rules",
  });
}

function noFile(url: string, statusCode: number): RametError {
  return new RametError("NotFound", `Cannot fetch ${url}: the server responded with status ${statusCode}`);
}

function unreachable(url: string, cause: unknown): RametError {
  if (cause instanceof RametError) return cause;
  const inner = cause instanceof Error && cause.cause instanceof RametError ? cause.cause : undefined;
  return (
    inner ??
    new RametError("Unavailable", `Cannot fetch ${url}: ${RametError.from(cause).message}`, {
      retryable: true,
      cause,
    })
  );
}
