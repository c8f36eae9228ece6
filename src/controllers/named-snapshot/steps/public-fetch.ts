import { lookup } from "node:dns";
import { BlockList, isIP, type LookupFunction } from "node:net";
import type { Readable } from "node:stream";
import { Agent, request } from "undici";
import { RametError } from "../../../base/errors.ts";

/** Returns the response body of a GET. @throws RametError `Forbidden`, `NotFound`, `Unavailable` */
export type PublicFetch = (url: string, signal: AbortSignal) => Promise<Readable>;

/**
 * Fetches URLs on behalf of users from the controller's network, so it allows public addresses only: not those of the node,
 * the cluster, private networks or cloud metadata services, also behind a name or a redirect.
 * @param options.isAllowed replaces the check of addresses in tests
 */
export function publicFetch(options: { isAllowed?: (address: string) => boolean } = {}): PublicFetch {
  const isAllowed = options.isAllowed ?? isPublic;
  const dispatcher = new Agent({ connect: { lookup: guardedLookup(isAllowed), timeout: 10_000 }, pipelining: 0 });
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

function guardedLookup(isAllowed: (address: string) => boolean): LookupFunction {
  return (hostname, options, callback) => {
    lookup(hostname, { ...options, all: true }, (error, addresses) => {
      const allowed = error === null ? addresses.filter(({ address }) => isAllowed(address)) : [];
      const [first] = allowed;
      if (error !== null) callback(error, "");
      else if (first === undefined) callback(refused(hostname, "none of its addresses is public"), "");
      else if (options.all === true) callback(null, allowed);
      else callback(null, first.address, first.family);
    });
  };
}

function isPublic(address: string): boolean {
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1];
  const plain = mapped ?? address;
  return !notPublic().check(plain, isIP(plain) === 6 ? "ipv6" : "ipv4");
}

/** The special-purpose addresses of RFC 6890 and those that clouds use for metadata. */
function notPublic(): BlockList {
  const list = new BlockList();
  for (const [net, bits] of ranges4) list.addSubnet(net, bits, "ipv4");
  for (const [net, bits] of ranges6) list.addSubnet(net, bits, "ipv6");
  return list;
}

const ranges4 = [
  ["0.0.0.0", 8],
  ["10.0.0.0", 8],
  ["100.64.0.0", 10],
  ["127.0.0.0", 8],
  ["169.254.0.0", 16],
  ["172.16.0.0", 12],
  ["192.0.0.0", 24],
  ["192.168.0.0", 16],
  ["198.18.0.0", 15],
  ["224.0.0.0", 3],
] as const;
const ranges6 = [
  ["::", 96],
  ["64:ff9b::", 96],
  ["fc00::", 7],
  ["fe80::", 10],
  ["ff00::", 8],
] as const;
const mostRedirects = 5;

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
