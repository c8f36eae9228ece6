import { once } from "node:events";
import { readFileSync } from "node:fs";
import type { IncomingMessage } from "node:http";
import { connect } from "node:http2";
import { request } from "node:https";
import type { LookupFunction } from "node:net";
import type { Readable, Writable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { onTestFinished } from "vitest";
import { defaultDomain } from "../../src/local/cluster-directory.ts";
import { domainCertificateFiles } from "../../src/local/control-plane/domain-certificate.ts";
import { readPort } from "../../src/local/supervisor/parts.ts";
import type { TestCluster } from "../cluster/local-cluster.ts";

export const protocols = ["HTTP/1.1", "HTTP/2"] as const;

export interface SecureRequest {
  protocol: (typeof protocols)[number];
  /** The first label of the host name. @default the host is the domain itself */
  host?: string;
  method?: string;
  path?: string;
  headers?: Record<string, string>;
}

export interface Response {
  status: number;
  body: Readable;
}

/**
 * Starts a request to the gateway of a local cluster over TLS, on a connection of its own. Nothing resolves the host name, and the
 * response is not read before the caller does.
 */
export function secureRequest(
  { directory }: TestCluster,
  { protocol, host: label, method = "GET", path = "/", headers = {} }: SecureRequest,
): { body: Writable; response: Promise<Response> } {
  const port = readPort(directory.gatewayPort) ?? 0;
  const host = label === undefined ? defaultDomain : `${label}.${defaultDomain}`;
  const ca = readFileSync(domainCertificateFiles(directory.tls, defaultDomain).ca);
  if (protocol === "HTTP/1.1") {
    const address = { host: "127.0.0.1", port, servername: host, ca };
    const body = request({ ...address, method, path, headers: { host, ...headers }, agent: false });
    const response = once(body, "response").then(([message]: IncomingMessage[]) => ({
      status: message?.statusCode ?? 0,
      body: message as Readable,
    }));
    return { body, response };
  }
  const session = connect(`https://${host}:${port}`, { ca, lookup: loopback });
  onTestFinished(() => {
    session.destroy();
  });
  const stream = session.request({ ":method": method, ":path": path, ...headers }, { endStream: false });
  const response = once(stream, "response").then(([head]: { ":status"?: number }[]) => ({
    status: head?.[":status"] ?? 0,
    body: stream,
  }));
  return { body: stream, response };
}

/** @returns the status and the text of the response */
export async function askSecurely(
  cluster: TestCluster,
  asked: SecureRequest,
): Promise<{ status: number; text: string }> {
  const { body, response } = secureRequest(cluster, asked);
  body.end();
  const { status, body: received } = await response;
  return { status, text: (await buffer(received)).toString() };
}

const loopback: LookupFunction = (_, __, done) => {
  done(null, [{ address: "127.0.0.1", family: 4 }]);
};
