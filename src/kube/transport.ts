import { Agent, type Dispatcher, ProxyAgent } from "undici";
import { canceled, type Clock, unlessAborted } from "../base/clock.ts";
import { defined } from "../base/defined.ts";
import { RametError } from "../base/errors.ts";
import type { Connection, Impersonation, CredentialValues } from "./connection.ts";
import type { ResourcePath, ResourceRef } from "./resource-ref.ts";

export interface HttpRequest {
  method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** With the query. */
  path: string;
  headers?: Record<string, string>;
  body?: string;
  signal?: AbortSignal | undefined;
  /** The time limit for the headers of the response, and for each pause in its body; 0 means no limit. */
  headersTimeoutMilliseconds: number;
  bodyTimeoutMilliseconds: number;
  /** Set after the server rejected the credentials: read them again. */
  freshCredentials?: boolean;
}

export type HttpResponse = Dispatcher.ResponseData;

/** The connections of one client to one API server. */
export interface Transport {
  /** Uses the pool of short requests. */
  request(request: HttpRequest): Promise<HttpResponse>;
  /** Uses a separate pool, so that open streams never delay a short request. */
  stream(request: HttpRequest): Promise<HttpResponse>;
  close(): Promise<void>;
}

export interface TransportOptions {
  userAgent: string;
  /** The limit of concurrent short requests; others wait. @default 32 */
  connections?: number | undefined;
  /** The time limit to open a connection. */
  connectTimeoutMilliseconds: number;
}

export function createTransport(connection: Connection, options: TransportOptions): Transport {
  const pools = poolsByCertificate(connection, options);
  const impersonation = impersonationHeaders(connection.impersonate);
  const send = async (kind: keyof Pools, request: HttpRequest): Promise<HttpResponse> => {
    const credentials = await connection.credentials.current(request.freshCredentials ?? false);
    const answer = pools.of(credentials)[kind].request({
      origin: connection.server,
      method: request.method,
      path: request.path,
      headers: {
        "user-agent": options.userAgent,
        accept: "application/json",
        ...(credentials.token === undefined ? {} : { authorization: `Bearer ${credentials.token}` }),
        ...impersonation,
        ...request.headers,
      },
      body: request.body ?? null,
      signal: request.signal ?? null,
      headersTimeout: request.headersTimeoutMilliseconds,
      bodyTimeout: request.bodyTimeoutMilliseconds,
    });
    const { signal } = request;
    // undici handles a signal only once it has a connection, for which a request may have to wait.
    const aborted = (): Error => new Error("The request was aborted", { cause: signal?.reason });
    return signal === undefined ? answer : unlessAborted(answer, signal, aborted);
  };
  return {
    request: (request) => send("requests", request),
    stream: (request) => send("watches", request),
    close: () => pools.close(),
  };
}

/** Encoded as client-go does: the API server unescapes the keys of `extra`, and reads values as UTF-8. */
function impersonationHeaders(impersonation: Impersonation | undefined): Record<string, string | string[]> {
  if (impersonation === undefined) return {};
  const { user, uid, groups, extra } = impersonation;
  const headers: Record<string, string | string[]> = { "impersonate-user": headerValue(user) };
  if (uid !== undefined && uid !== "") headers["impersonate-uid"] = headerValue(uid);
  if (groups.length > 0) headers["impersonate-group"] = groups.map(headerValue);
  for (const [key, values] of Object.entries(extra)) {
    const escaped = encodeURIComponent(key).replace(/[()]/g, (char) => (char === "(" ? "%28" : "%29"));
    if (values.length > 0) headers[`impersonate-extra-${escaped}`] = values.map(headerValue);
  }
  return headers;
}

/** HTTP headers are sent as Latin-1: one character for each byte of the UTF-8 text. */
function headerValue(text: string): string {
  return Buffer.from(text, "utf8").toString("latin1");
}

interface Pools {
  requests: Dispatcher;
  watches: Dispatcher;
}

/** Connections belong to one client certificate: when an exec plugin returns a new one, new connections are opened. */
function poolsByCertificate(
  connection: Connection,
  { connections = 32, connectTimeoutMilliseconds }: TransportOptions,
) {
  let made: { cert: string | undefined; pools: Pools } | undefined;
  return {
    of({ token: _, ...certificate }: CredentialValues): Pools {
      const { cert } = certificate;
      if (made?.cert === cert && made !== undefined) return made.pools;
      // Running requests may finish on the old connections; no new ones start there.
      if (made !== undefined) void made.pools.requests.close();
      made = {
        cert,
        pools: {
          requests: dispatcher(connection, certificate, { connections, connectTimeoutMilliseconds }),
          watches: dispatcher(connection, certificate, { connections: null, connectTimeoutMilliseconds }),
        },
      };
      return made.pools;
    },
    async close(): Promise<void> {
      await Promise.all([made?.pools.requests.destroy(), made?.pools.watches.destroy()]);
    },
  };
}

interface PoolOptions {
  /** null: no limit. */
  connections: number | null;
  connectTimeoutMilliseconds: number;
}

function dispatcher(
  connection: Connection,
  certificate: Pick<CredentialValues, "cert" | "key">,
  { connections, connectTimeoutMilliseconds }: PoolOptions,
): Dispatcher {
  const tls = {
    ...defined({ ca: connection.ca, servername: connection.tlsServerName, ...certificate }),
    rejectUnauthorized: connection.insecureSkipTlsVerify !== true,
    timeout: connectTimeoutMilliseconds,
  };
  const common = {
    connections,
    // With HTTP/1.1, a stuck stream never delays another one, and the API server's stream limits do not matter.
    allowH2: false,
    // Go's server closes idle connections after 90 s at the earliest; undici's own 4 s would cost a TLS handshake
    // per reconcile on a quiet cluster.
    keepAliveTimeout: 55_000,
    keepAliveMaxTimeout: 55_000,
  };
  return connection.proxyUrl === undefined
    ? new Agent({ ...common, connect: tls })
    : new ProxyAgent({ ...common, uri: connection.proxyUrl, requestTls: tls });
}

/** Sends requests to one API server: the part of `KubeClient` that resources and watches use. */
export interface ApiCaller {
  /** The namespace of requests that name none. */
  readonly namespace: string;
  readonly clock: Clock;
  /** 0 ≤ x < 1. */
  readonly random: () => number;
  /** Sends a request and reads the JSON of the response. */
  request(request: ApiRequest): Promise<unknown>;
  /** Opens a stream; the caller reads it to its end or aborts the signal. */
  stream(request: ApiRequest): Promise<HttpResponse["body"]>;
}

export interface ApiRequest {
  verb: Verb;
  resource: ResourceRef;
  at: ResourcePath;
  query?: Record<string, string | number | boolean | undefined>;
  body?: unknown;
  /** @default application/json */
  contentType?: string;
  /** Whether the request may be repeated even if the server may have carried it out. */
  repeatable: boolean;
  signal?: AbortSignal | undefined;
}

/** Kubernetes' verbs, as RBAC names them. */
export type Verb = "get" | "list" | "watch" | "create" | "update" | "patch" | "delete";

/** The error for a request without a response. `what` names the request, such as `get pods team-a/a`. */
export function networkError(what: string, error: unknown, signal?: AbortSignal): RametError {
  if (error instanceof RametError) return error;
  if (signal?.aborted === true) {
    return signal.reason instanceof RametError ? signal.reason : canceled(what, signal);
  }
  const code = codeOf(error);
  const why = error instanceof Error ? error.message : String(error);
  if (code.endsWith("_TIMEOUT")) {
    return new RametError("Timeout", `${what} failed: the API server did not respond in time (${code})`, {
      retryable: true,
      cause: error,
    });
  }
  const tls = /CERT|SIGNATURE|ALTNAME|SELF_SIGNED|SSL/.test(code);
  return new RametError("Unavailable", `${what} failed: the API server is unreachable: ${why}`, {
    retryable: true,
    cause: error,
    hint: tls
      ? "Check the certificate authority in the kubeconfig"
      : "Check that it runs and that the address is correct",
  });
}

/** Whether the request certainly did not reach the server, so that any request can be repeated. */
export function wasNeverSent(error: RametError): boolean {
  return neverSent.has(codeOf(error.cause));
}

const neverSent: ReadonlySet<string> = new Set([
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "UND_ERR_CONNECT_TIMEOUT",
]);

/** The code of an error or of its causes. Node reports attempts to several addresses as an AggregateError. */
function codeOf(error: unknown): string {
  if (!(error instanceof Error)) return "";
  if ("code" in error && typeof error.code === "string") return error.code;
  if (error instanceof AggregateError) return codeOf(error.errors[0]);
  return codeOf(error.cause);
}
