import { once } from "node:events";
import * as http from "node:http";
import * as https from "node:https";
import type { AddressInfo } from "node:net";
import { pipeline } from "node:stream/promises";
import type { KeyPair } from "../../src/local/control-plane/certificate.ts";

/** A way to Azurite. */
export interface AzureWords {
  endpoint: string;
  stop(): Promise<void>;
}

/**
 * Stands before Azurite and says in Azure's word what Azurite says in another: whoever may make blobs, and would write over one, is
 * refused as `UnauthorizedBlobOverwrite`, where Azurite names the right that is lacking. Azure's word is known from its
 * documentation of error codes alone.
 */
export async function speakAsAzure(target: string, tls?: KeyPair): Promise<AzureWords> {
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
  // A server that refuses may break the connection before it has read all; its answer counts.
  pipeline(incoming, passed).catch(() => undefined);
  const [response] = await answered;
  const lacks = response.headers["x-ms-error-code"] === "AuthorizationPermissionMismatch";
  if (lacks && url.searchParams.get("sp") === "c") {
    response.resume();
    const word = "UnauthorizedBlobOverwrite";
    outgoing.writeHead(403, { "x-ms-error-code": word }).end(`<Error><Code>${word}</Code></Error>`);
    return;
  }
  outgoing.writeHead(response.statusCode ?? 502, response.headers);
  await pipeline(response, outgoing);
}
