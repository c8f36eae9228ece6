import { RametError } from "../base/errors.ts";

/** RFC 6761 reserves its names for the own machine. */
export const defaultDomain = "ramet.localhost";

/**
 * Reads the domain of a local cluster.
 * @throws RametError `InvalidArgument`. Clients accept no certificate for all names below a domain of one label
 */
export function parseDomain(text: string): string {
  const domain = text.toLowerCase();
  const labels = domain.split(".");
  const isName = labels.length > 1 && labels.every((label) => /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/.test(label));
  // A host name has at most 253 characters, with the port and the id of a sandbox before the domain.
  if (isName && domain.length <= 180 && !/^[0-9.]+$/.test(domain)) return domain;
  throw new RametError("InvalidArgument", `Invalid domain: ${JSON.stringify(text.slice(0, 200))}`, {
    hint: "Use a DNS name of two or more labels without a port, such as sandboxes.example.org",
  });
}
