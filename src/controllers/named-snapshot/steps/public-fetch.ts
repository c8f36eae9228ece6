import { isIP } from "node:net";
import type { Readable } from "node:stream";
import { Agent, request } from "undici";
import { RametError } from "../../../base/errors.ts";
import { guardedLookup, publicOnly } from "../../../base/special-addresses.ts";

/** Returns the response body of a GET. @throws RametError `Forbidden`, `NotFound`, `Unavailable` */
export type PublicFetch = (url: string, signal: AbortSignal) => Promise<Readable>;

export interface PublicFetchOptions {
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
