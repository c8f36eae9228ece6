/** The names that a server at a loopback address has for its own machine. */
const loopback = ["localhost", "127.0.0.1", "[::1]"];

/**
 * Whether a request is meant for this server. A web page can let a browser send requests to any address, also under a name of its
 * own (DNS rebinding): the browser then names the page in `Origin`, and the page's domain in `Host`.
 * @param hosts names of the server, besides those of its own machine
 */
export function isForHosts(
  headers: { host?: string | undefined; origin?: string | undefined },
  hosts: readonly string[],
) {
  const names = new Set([...loopback, ...hosts.map(inUrls)]);
  const host = hostOf(`http://${headers.host ?? ""}`);
  if (host === undefined || !names.has(host)) return false;
  const { origin } = headers;
  if (origin === undefined) return true;
  const page = hostOf(origin);
  return page !== undefined && names.has(page);
}

/** As a URL has it: in lower case, and an IPv6 address in brackets. */
function inUrls(name: string): string {
  return name.includes(":") && !name.startsWith("[") ? `[${name}]` : name.toLowerCase();
}

function hostOf(url: string): string | undefined {
  return URL.canParse(url) ? new URL(url).hostname : undefined;
}
