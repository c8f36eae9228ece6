import { closingResponse, endWith, statusOf } from "../../base/http.ts";
import { once } from "node:events";
import { createServer, type Server } from "node:https";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { TLSSocket } from "node:tls";
import { RametError } from "../../base/errors.ts";
import { sendLog } from "../../cell/server/reports.ts";
import type { Clock } from "../../base/clock.ts";
import { nodeClientName } from "../control-plane/api-server.ts";
import type { ContainerLog } from "./pod-runner.ts";

export interface KubeletServerOptions {
  /** PEM: the authority of the API server's client certificate, and the node's certificate and key. */
  ca: string;
  certificate: string;
  key: string;
  ip: string;
  /** The log of a container of a Pod. */
  findLog: (at: { namespace: string; name: string }, container: string) => ContainerLog | undefined;
  clock: Clock;
}

/** Serves container logs, which the API server requests from a kubelet. Rejects other requests. */
export async function startKubeletServer(options: KubeletServerOptions) {
  const { ca, certificate, key, ip } = options;
  const server: Server = createServer(
    {
      ca,
      cert: certificate,
      key,
      requestCert: true,
      rejectUnauthorized: true,
      ServerResponse: closingResponse(options.clock),
    },
    (request, response) => {
      answer(options, request, response).catch((error: unknown) => {
        sendError(response, error);
      });
    },
  );
  server.on("upgrade", (_request, socket) => {
    endWith(socket, { status: 501, type: "text/plain", body: `${noStreams}\n` });
  });
  server.listen(0, ip);
  await once(server, "listening");
  return {
    port: (server.address() as AddressInfo).port,
    close: () => {
      server.close();
      server.closeAllConnections();
    },
  };
}

const noStreams = "the local node does not support exec, attach or port-forward for Pods: use `ramet sandbox exec`";

async function answer(
  options: KubeletServerOptions,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  requireApiServer(request);
  const url = new URL(request.url ?? "/", "https://node");
  const [, what = "", namespace = "", name = "", container = ""] = url.pathname.split("/").map(decodeURIComponent);
  if (streams.has(what)) return void response.writeHead(501, { "content-type": "text/plain" }).end(`${noStreams}\n`);
  if (what !== "containerLogs") throw new RametError("NotFound", `node: no such path: ${url.pathname}`);
  const log = options.findLog({ namespace, name }, container);
  if (log === undefined) throw new RametError("NotFound", `Pod ${namespace}/${name} has not been started here`);
  const query = logQuery(url.searchParams, options.clock.now());
  const path = logPath(log, url.searchParams);
  // Ends the response with the container, after the last lines have been read from the file.
  void log.ended.then(() => options.clock.schedule(lastLinesMilliseconds, () => response.end()));
  await sendLog(path, query, response);
}

function logPath({ path, previousPath }: ContainerLog, query: URLSearchParams): string {
  if (query.get("previous") !== "true") return path;
  if (previousPath !== undefined) return previousPath;
  throw new RametError("InvalidArgument", "the container has no previous run: a cell is never restarted in place");
}

const streams = new Set(["exec", "attach", "portForward", "run"]);

function requireApiServer({ socket }: IncomingMessage): void {
  const subject = socket instanceof TLSSocket ? socket.getPeerCertificate().subject.CN : undefined;
  if (subject === nodeClientName) return;
  throw new RametError("Forbidden", "node: only the API server is authorized, and this is not its certificate");
}

const lastLinesMilliseconds = 200;

/** The API server passes `sinceSeconds` unchanged. */
function logQuery(query: URLSearchParams, now: Date): URLSearchParams {
  const seconds = query.get("sinceSeconds");
  if (seconds === null) return query;
  const copy = new URLSearchParams(query);
  copy.set("sinceTime", new Date(now.getTime() - Number(seconds) * 1000).toISOString());
  return copy;
}

function sendError(response: ServerResponse, error: unknown): void {
  if (response.headersSent) return void response.destroy();
  const { code, message } = RametError.from(error);
  response.writeHead(statusOf(code), { "content-type": "text/plain" }).end(`${message}\n`);
}
