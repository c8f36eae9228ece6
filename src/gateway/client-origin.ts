import type { IncomingHttpHeaders } from "node:http";
import { BlockList, isIP, isIPv6 } from "node:net";
import { limitedAddress } from "../base/slots.ts";

/** Where a request comes from. */
export interface ClientOrigin {
  /** For limits: an IPv4 address, or the /64 network of an IPv6 address, because one client usually has all of it. */
  address: string;
  /** Whether a trusted proxy holds the connection, which many clients then share. */
  isProxied: boolean;
  /** The values of `X-Forwarded-For` and `X-Forwarded-Proto` for the sandbox. */
  forwardedFor: string;
  scheme: string;
}

/** Finds the client of a request or, without headers, of a connection. */
export type OriginReader = (from: {
  socket: { remoteAddress?: string | undefined; encrypted?: boolean };
  headers?: IncomingHttpHeaders;
}) => ClientOrigin;

/**
 * Returns a function that finds the client of a request.
 * @param trusted the networks of proxies, such as `10.0.0.0/8`. Only their `X-Forwarded-For` counts. If empty, the header is
 *   passed on from everyone and counts for nothing
 */
export function originReader(trusted: readonly string[]): OriginReader {
  const proxies = new BlockList();
  for (const network of trusted) {
    const [address = "", bits] = network.split("/");
    proxies.addSubnet(address, Number(bits), isIPv6(address) ? "ipv6" : "ipv4");
  }
  const isProxy = (address: string): boolean =>
    trusted.length > 0 && isIP(address) !== 0 && proxies.check(address, isIPv6(address) ? "ipv6" : "ipv4");
  return ({ socket, headers = {} }) => {
    const peer = socket.remoteAddress ?? "unknown";
    const isProxied = isProxy(peer);
    const isHeard = isProxied || trusted.length === 0;
    const given = isHeard ? [headers["x-forwarded-for"]].flat().filter((value) => value !== undefined) : [];
    const [scheme = socket.encrypted === true ? "https" : "http"] = isHeard
      ? [headers["x-forwarded-proto"]].flat()
      : [];
    const client = isProxied ? originalClient(given.join(",").split(","), isProxy) : undefined;
    return { address: limitedAddress(client ?? peer), isProxied, forwardedFor: [...given, peer].join(", "), scheme };
  };
}

/** The last address that is not one of our proxies: a client can write anything before it. */
function originalClient(hops: readonly string[], isProxy: (address: string) => boolean): string | undefined {
  const addresses = hops.map((hop) => hop.trim().replace(/^(\d+\.\d+\.\d+\.\d+):\d+$/, "$1"));
  const client = addresses.findLast((address) => !isProxy(address));
  return client !== undefined && isIP(client) !== 0 ? client : undefined;
}
