/**
 * The header `Host` that the annotation `ramet.dev/request-host` requests for a port: `${PORT}` is replaced by the port. Undefined if
 * the result is no host name with an optional port, so that nothing else gets into a request.
 */
export function requestHost(text: string, port: number): string | undefined {
  const host = text.trim().replaceAll("${PORT}", String(port));
  return isHost.test(host) && host.length <= mostCharacters ? host : undefined;
}

const isHost = /^[A-Za-z0-9_]([A-Za-z0-9._-]*[A-Za-z0-9])?(:[0-9]{1,5})?$/;
const mostCharacters = 260;
