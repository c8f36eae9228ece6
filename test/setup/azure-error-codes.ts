import { once } from "node:events";
import * as http from "node:http";
import * as https from "node:https";
import type { AddressInfo } from "node:net";
import { pipeline } from "node:stream/promises";
import { ContainerClient, StorageResponseFormat, type StorageSharedKeyCredential } from "@azure/storage-blob";
import type { KeyPair } from "../../src/local/control-plane/certificate.ts";

/** A proxy in front of Azurite. */
export interface AzureProxy {
  endpoint: string;
  stop(): Promise<void>;
}

interface AzureProxyOptions {
  /** Azurite's address. */
  target: string;
  /** Signs lists, whose pages then have at most 100 blobs instead of 5,000. */
  credential?: StorageSharedKeyCredential;
  tls?: KeyPair | undefined;
}

/**
 * Starts a proxy that replaces an error code of Azurite by Azure's. For a client with permission to create blobs but not to
 * overwrite them, Azure returns `UnauthorizedBlobOverwrite`, and Azurite reports a missing permission. The source for Azure's
 * code is its documentation of error codes.
 */
export async function startAzureProxy(options: AzureProxyOptions): Promise<AzureProxy> {
  const { tls } = options;
  const answer: http.RequestListener = (incoming, outgoing) => {
    pass(incoming, outgoing, options).catch(() => outgoing.destroy());
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
  { target, credential, tls }: AzureProxyOptions,
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
  // Azurite has accepted the client's signature.
  if (credential !== undefined && response.statusCode === 200 && url.searchParams.get("comp") === "list") {
    response.resume();
    outgoing.writeHead(200, { "content-type": "application/xml" }).end(await shortPage(url, credential));
    return;
  }
  outgoing.writeHead(response.statusCode ?? 502, response.headers);
  await pipeline(response, outgoing);
}

/** A page of a list as Azurite answers it, with at most 100 blobs. */
async function shortPage(url: URL, credential: StorageSharedKeyCredential): Promise<string> {
  const container = new ContainerClient(`${url.origin}${url.pathname}`, credential);
  const prefix = url.searchParams.get("prefix") ?? "";
  const marker = url.searchParams.get("marker") ?? "";
  const blobs = container.listBlobsFlat({ prefix, responseFormat: StorageResponseFormat.Xml });
  const pages = blobs.byPage({ ...(marker ? { continuationToken: marker } : {}), maxPageSize: 100 });
  const page = await pages.next();
  if (page.done === true) throw new Error("Azurite answered a list without a page");
  return page.value._response.bodyAsText;
}
