import { once } from "node:events";
import * as http from "node:http";
import * as https from "node:https";
import type { AddressInfo } from "node:net";
import { pipeline } from "node:stream/promises";
import type { KeyPair } from "../../src/local/control-plane/certificate.ts";

/** A proxy in front of Azurite. */
export interface AzureProxy {
  endpoint: string;
  stop(): Promise<void>;
}

/**
 * Starts a proxy that replaces an error code of Azurite by Azure's. For a client with permission to create blobs but not to
 * overwrite them, Azure returns `UnauthorizedBlobOverwrite`, and Azurite reports a missing permission. The source for Azure's
 * code is its documentation of error codes.
 */
export async function startAzureProxy(target: string, tls?: KeyPair): Promise<AzureProxy> {
  const answer: http.RequestListener = (incoming, outgoing) => {
    pass(incoming, outgoing, { target, tls }).catch(() => outgoing.destroy());
  };
  const server =
    tls === undefined ? http.createServer(answer) : https.createServer({ cert: tls.certificate, key: tls.key }, answer);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    endpoint: `${tls === undefined ? "http" : "https"}://127.0.0.1:${(server.address() as AddressInfo).port}`,
    stop: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

async function pass(
  incoming: http.IncomingMessage,
  outgoing: http.ServerResponse,
  { target, tls }: { target: string; tls: KeyPair | undefined },
): Promise<void> {
  const url = new URL(incoming.url ?? "/", target);
  const { method, headers } = incoming;
  const passed =
    tls === undefined
      ? http.request(url, { method, headers })
      : https.request(url, { method, headers, ca: tls.certificate });
  const answered = once(passed, "response") as Promise<[http.IncomingMessage]>;
  // A server that rejects the request may close the connection before it has read the body. Only its response matters.
  pipeline(incoming, passed).catch(() => undefined);
  const [response] = await answered;
  const lacks = response.headers["x-ms-error-code"] === "AuthorizationPermissionMismatch";
  if (lacks && url.searchParams.get("sp") === "c") {
    response.resume();
    const code = "UnauthorizedBlobOverwrite";
    outgoing.writeHead(403, { "x-ms-error-code": code }).end(`<Error><Code>${code}</Code></Error>`);
    return;
  }
  outgoing.writeHead(response.statusCode ?? 502, response.headers);
  await pipeline(response, outgoing);
}
