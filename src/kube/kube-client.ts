import * as z from "zod";
import type { KindNames } from "../api/schema/kind.ts";
import { type Clock, backoffMilliseconds, delay, systemClock } from "../base/clock.ts";
import { defined } from "../base/defined.ts";
import { RametError, unlessCode } from "../base/errors.ts";
import type { Connection } from "./connection.ts";
import { DataMap, type KubeObject, parseObject } from "./object.ts";
import { ResourceClient } from "./resource-client.ts";
import { type ResourceRef, coreResources, pathOf, refOf } from "./resource-ref.ts";
import { type ApiStatus, apiStatusOf, readStatus, statusError } from "./status-error.ts";
import {
  type ApiCaller,
  type ApiRequest,
  type HttpRequest,
  type HttpResponse,
  type Transport,
  type Verb,
  createTransport,
  networkError,
  wasNeverSent,
} from "./transport.ts";

/** One request, with or without a response. */
export interface RequestRecord {
  verb: Verb;
  resource: ResourceRef;
  /** Absent for lists, watches and creations. */
  name?: string;
  subresource?: string;
  /** Absent if there was no response. */
  httpStatus?: number;
  /** Until the headers of the response. */
  milliseconds: number;
}

export interface KubeClientOptions {
  /** Called for each request that was sent, including repeats. Benchmarks count API writes with it. */
  onRequest?: (record: RequestRecord) => void;
  clock?: Clock;
  /** 0 ≤ x < 1. */
  random?: () => number;
  userAgent?: string;
  /** The limit of concurrent short requests. @default 32 */
  connections?: number;
  /** Reads only the metadata of objects (PartialObjectMetadata). @default false */
  metadataOnly?: boolean;
  /** The time limit until a short request has the headers of its response. Connecting may take ten seconds of it. @default 30000 */
  requestTimeoutMilliseconds?: number;
}

/**
 * A client of one API server: one pool of connections for requests, another for watches.
 *
 * Requests are retried, with growing pauses or after the time that the server asks for, when that is safe: always if the server
 * was not reached or did not start the request (429, or 503 with `Retry-After`, which a starting server returns), and otherwise
 * only if the request is idempotent.
 */
export class KubeClient implements ApiCaller {
  /** The namespace of requests that name none. */
  readonly namespace: string;
  readonly clock: Clock;
  readonly random: () => number;
  readonly #transport: Transport;
  readonly #renewable: boolean;
  readonly #options: KubeClientOptions;

  constructor(connection: Connection, options: KubeClientOptions = {}) {
    this.namespace = connection.namespace;
    this.clock = options.clock ?? systemClock;
    this.random = options.random ?? Math.random;
    this.#options = options;
    this.#renewable = connection.credentials.renewable;
    this.#transport = createTransport(connection, {
      userAgent: options.userAgent ?? "ramet",
      connections: options.connections,
      connectTimeoutMilliseconds: Math.min(this.#timeouts().headersTimeoutMilliseconds, longestConnectMilliseconds),
    });
  }

  /** The objects of one resource. `parse` validates and types each. */
  resource(ref: ResourceRef): ResourceClient<KubeObject>;
  resource<T extends KubeObject>(ref: ResourceRef, parse: (value: unknown) => T): ResourceClient<T>;
  resource(ref: ResourceRef, parse: (value: unknown) => KubeObject = parseObject): ResourceClient<KubeObject> {
    return new ResourceClient(this, ref, parse);
  }

  /** The objects of a kind that Ramet defines or shares with OpenKruise Agents. */
  of<T extends KubeObject>(kind: KindNames & { object: z.ZodType<T> }): ResourceClient<T> {
    return this.resource(refOf(kind), (value) => kind.object.parse(value));
  }

  get configMaps(): ResourceClient<DataMap> {
    return this.resource(coreResources.configMaps, (value) => DataMap.parse(value));
  }

  get secrets(): ResourceClient<DataMap> {
    return this.resource(coreResources.secrets, (value) => DataMap.parse(value));
  }

  /** Whether the API server reports that it is ready (`/readyz`). */
  async ready(signal?: AbortSignal): Promise<boolean> {
    const response = await this.#transport
      .request({ method: "GET", path: "/readyz", ...this.#timeouts(), signal })
      .catch(() => undefined);
    await response?.body.dump();
    return response?.statusCode === 200;
  }

  /** The version of the API server (`/version`), such as `v1.36.3`. @throws RametError */
  async version(signal?: AbortSignal): Promise<string> {
    return Version.parse(await this.getPath("/version", signal)).gitVersion;
  }

  /** Whether the API server has kinds of this group and version, which everybody may ask. @throws RametError */
  async serves({ group, version }: { group: string; version: string }, signal?: AbortSignal): Promise<boolean> {
    return (await this.getPath(`/apis/${group}/${version}`, signal).catch(unlessCode("NotFound"))) !== undefined;
  }

  /** The API server's clock in whole seconds, and how long the request for it took. @throws RametError */
  async serverTime(signal?: AbortSignal): Promise<{ at: Date; roundTripMilliseconds: number }> {
    const startedAt = this.clock.monotonicMilliseconds();
    try {
      const response = await this.#transport.request({ method: "GET", path: "/version", ...this.#timeouts(), signal });
      await response.body.dump();
      const date = z.string().catch("").parse(response.headers["date"]);
      const at = new Date(date);
      if (Number.isNaN(at.getTime())) throw new RametError("Unavailable", "The API server's response has no date");
      return { at, roundTripMilliseconds: this.clock.monotonicMilliseconds() - startedAt };
    } catch (error) {
      throw networkError("get /version", error, signal);
    }
  }

  /** The JSON at a path that is not a resource, such as `/openid/v1/jwks`. @throws RametError */
  async getPath(path: string, signal?: AbortSignal): Promise<unknown> {
    const what = `get ${path}`;
    const headers = { accept: "application/json, */*" };
    try {
      const response = await this.#transport.request({ method: "GET", path, headers, ...this.#timeouts(), signal });
      if (response.statusCode !== 200) throw await refused(what, response);
      return await response.body.json();
    } catch (error) {
      throw networkError(what, error, signal);
    }
  }

  /**
   * Sends a request and reads the JSON of the response.
   *
   * @throws RametError with a code that fits the HTTP status; `apiStatusOf` returns the server's response
   */
  async request(request: ApiRequest): Promise<unknown> {
    const what = describeRequest(request);
    for (let attempt = 0, renewed = false; ; attempt++) {
      try {
        return await this.#once(request, what, renewed);
      } catch (thrown) {
        const error = RametError.from(thrown, what);
        if (error.code === "Unauthorized" && this.#renewable && !renewed) {
          renewed = true;
          continue;
        }
        if (attempt + 1 >= mostAttempts(error) || !mayRepeat(request, error)) throw error;
        await delay(this.clock, this.#pauseMilliseconds(error, attempt), request.signal);
      }
    }
  }

  /** Opens a stream, without retries. The caller reads the body to its end or aborts the signal. */
  async stream(request: ApiRequest): Promise<HttpResponse["body"]> {
    const what = describeRequest(request);
    for (let renewed = false; ; renewed = true) {
      try {
        const response = await this.#send("stream", request, renewed);
        if (response.statusCode === 200) return response.body;
        throw await refused(what, response);
      } catch (error) {
        const known = networkError(what, error, request.signal);
        if (known.code !== "Unauthorized" || !this.#renewable || renewed) throw known;
      }
    }
  }

  /** Closes all connections; running requests fail. */
  async close(): Promise<void> {
    await this.#transport.close();
  }

  async #once(request: ApiRequest, what: string, freshCredentials: boolean): Promise<unknown> {
    try {
      const response = await this.#send("request", request, freshCredentials);
      if (response.statusCode < 200 || response.statusCode > 299) throw await refused(what, response);
      return await response.body.json();
    } catch (error) {
      throw networkError(what, error, request.signal);
    }
  }

  async #send(kind: "request" | "stream", request: ApiRequest, freshCredentials: boolean): Promise<HttpResponse> {
    const { verb, resource, at } = request;
    const started = this.clock.monotonicMilliseconds();
    const record = (httpStatus?: number): void => {
      this.#options.onRequest?.({
        verb,
        resource,
        ...defined({ name: at.name, subresource: at.subresource, httpStatus }),
        milliseconds: this.clock.monotonicMilliseconds() - started,
      });
    };
    try {
      const response = await this.#transport[kind](this.#httpRequest(kind, request, freshCredentials));
      record(response.statusCode);
      return response;
    } catch (error) {
      record();
      throw error;
    }
  }

  #httpRequest(kind: "request" | "stream", request: ApiRequest, freshCredentials: boolean): HttpRequest {
    const { verb, resource, at, query, body, contentType = "application/json", signal } = request;
    const accept = this.#options.metadataOnly === true ? metadataTypes[verb] : undefined;
    return {
      method: methods[verb],
      path: pathOf(resource, at) + queryOf(query),
      headers: defined({ accept, "content-type": body === undefined ? undefined : contentType }),
      ...(body !== undefined && { body: JSON.stringify(body) }),
      signal,
      ...this.#timeouts(),
      // A watch may be silent for a long time. Its reader has its own deadline.
      ...(kind === "stream" && { bodyTimeoutMilliseconds: 0 }),
      freshCredentials,
    };
  }

  #timeouts() {
    const milliseconds = this.#options.requestTimeoutMilliseconds ?? 30_000;
    return { headersTimeoutMilliseconds: milliseconds, bodyTimeoutMilliseconds: milliseconds };
  }

  #pauseMilliseconds(error: RametError, attempt: number): number {
    const retryAfter = apiStatusOf(error)?.retryAfterMilliseconds;
    const own = backoffMilliseconds({ baseMilliseconds: 100, maxMilliseconds: 5_000 }, attempt, this.random);
    // A little later than requested, so that clients that were rejected together do not retry together.
    return retryAfter === undefined ? own : Math.min(retryAfter, longestRetryAfterMilliseconds) + own;
  }
}

/** The media types of requests for metadata. */
const metadataTypes: Partial<Record<Verb, string>> = {
  get: "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
  watch: "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
  list: "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
};

const longestConnectMilliseconds = 10_000;
const longestRetryAfterMilliseconds = 30_000;

const Version = z.looseObject({ gitVersion: z.string() });

const methods = {
  get: "GET",
  list: "GET",
  watch: "GET",
  create: "POST",
  update: "PUT",
  patch: "PATCH",
  delete: "DELETE",
} as const satisfies Record<Verb, HttpRequest["method"]>;

/** A server that sends Retry-After is reachable. The limit is that of client-go. */
function mostAttempts(error: RametError): number {
  return apiStatusOf(error)?.retryAfterMilliseconds === undefined ? 5 : 10;
}

function mayRepeat(request: ApiRequest, error: RametError): boolean {
  if (!error.retryable) return false;
  const status = apiStatusOf(error);
  if (status?.httpStatus === 410) return false;
  return request.repeatable || (status !== undefined && hasNotBegun(status)) || wasNeverSent(error);
}

function hasNotBegun({ httpStatus, retryAfterMilliseconds }: ApiStatus): boolean {
  return httpStatus === 429 || (httpStatus === 503 && retryAfterMilliseconds !== undefined);
}

async function refused(what: string, response: HttpResponse): Promise<RametError> {
  const retryAfter = z.string().optional().catch(undefined).parse(response.headers["retry-after"]);
  return statusError(what, readStatus(response.statusCode, await response.body.text(), retryAfter));
}

function describeRequest({ verb, resource, at }: ApiRequest): string {
  const name = [at.namespace, at.name].filter((part) => part !== undefined).join("/");
  const plural = at.subresource === undefined ? resource.plural : `${resource.plural}/${at.subresource}`;
  return name === "" ? `${verb} ${plural}` : `${verb} ${plural} ${name}`;
}

function queryOf(query: ApiRequest["query"]): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value !== undefined) search.set(name, String(value));
  }
  return search.size === 0 ? "" : `?${search.toString()}`;
}
