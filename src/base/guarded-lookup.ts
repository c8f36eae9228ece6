import { lookup } from "node:dns";
import { isIP, type LookupFunction } from "node:net";
import { notPublicAddresses } from "./special-addresses.ts";

/**
 * A DNS lookup for connections on behalf of users. It returns allowed addresses only, and the connection uses what it returns, so
 * that a name cannot change its address between the check and the connection.
 * @param refused the error for a name without an allowed address
 */
export function guardedLookup(
  isAllowed: (address: string, hostname: string) => boolean,
  refused: (hostname: string) => Error,
): LookupFunction {
  return (hostname, options, callback) => {
    lookup(hostname, { ...options, all: true }, (error, addresses) => {
      const allowed = error === null ? addresses.filter(({ address }) => isAllowed(address, hostname)) : [];
      const [first] = allowed;
      if (error !== null) callback(error, "");
      else if (first === undefined) callback(refused(hostname), "");
      else if (options.all === true) callback(null, allowed);
      else callback(null, first.address, first.family);
    });
  };
}

/** Whether an address is public, and not in the cluster's IPv4 ranges. */
export function publicOnly(clusterRanges: readonly string[] | undefined): (address: string) => boolean {
  const denied = notPublicAddresses(clusterRanges);
  return (address) => !denied.check(address, isIP(address) === 6 ? "ipv6" : "ipv4");
}
