import { BlockList, isIP, type LookupFunction } from "node:net";
import { lookup } from "node:dns";

/**
 * The addresses and names that sandboxes and recipes do not reach. The only list: link embeds a copy
 * (`native/link/internal/policy/special-addresses.json`), which a test compares.
 */
export const specialAddresses = {
  /** Metadata and credentials of clouds, and link-local addresses. No rule opens them, except those of `podIdentity`. */
  metadata: [
    "169.254.0.0/16", // AWS, Google Cloud, Azure and most others
    "168.63.129.16/32", // Azure's WireServer, which gives nodes their credentials
    "100.100.100.200/32", // Alibaba Cloud
    "192.0.0.192/32", // Oracle Cloud
  ],
  /** Only a rule of the runtime or a namespace that names the address opens it. EKS Pod Identity gives a Pod its own credentials. */
  podIdentity: ["169.254.170.23/32"],
  /** Loopback, multicast and special purposes (RFC 6890). Only a rule that names an address or range inside opens them. */
  reserved: [
    "0.0.0.0/8",
    "127.0.0.0/8",
    "192.0.0.0/24",
    "198.18.0.0/15", // for benchmarks; 198.19.0.0/16 is used for Pods on EKS
    "224.0.0.0/4",
    "240.0.0.0/4",
  ],
  /** Private networks (RFC 1918, RFC 6598): the default for the ranges of Pods, Services and nodes. */
  private: ["10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16"],
  /** Domains of clusters and of clouds' private networks. Only a rule of the runtime that names a name below opens them. */
  names: ["cluster.local", "internal", "svc"],
} as const satisfies Record<string, readonly string[]>;

const specialRanges = [...specialAddresses.metadata, ...specialAddresses.reserved, ...specialAddresses.private];

/** The IPv6 addresses that are not public, and the prefixes that embed IPv4 addresses. Sandboxes have no IPv6. */
const notPublic6 = [
  "::/96",
  "::ffff:0:0:0/96", // RFC 2765
  "64:ff9b::/96",
  "64:ff9b:1::/48",
  "2002::/16",
  "fc00::/7",
  "fe80::/9", // with site-local addresses, which are obsolete but may be routed
  "ff00::/8",
];

/** Every address that is not public: special, private, and in `ranges` (IPv4). IPv4-mapped IPv6 addresses count as IPv4. */
export function notPublicAddresses(ranges: readonly string[] = []): BlockList {
  const list = new BlockList();
  for (const range of [...specialRanges, ...ranges]) list.addSubnet(...subnet(range), "ipv4");
  for (const range of notPublic6) list.addSubnet(...subnet(range), "ipv6");
  return list;
}

function subnet(range: string): [net: string, bits: number] {
  const [net = "", bits] = range.split("/");
  return [net, Number(bits)];
}

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
