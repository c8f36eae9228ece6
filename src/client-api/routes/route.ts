import type { FastifyReply, FastifyRequest } from "fastify";
import * as z from "zod";
import { keyedUuidOf } from "../../api/schema/digest.ts";
import { RametError } from "../../base/errors.ts";
import type { Caller, Need } from "../keys/callers.ts";

export type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";

/** A route of a dialect. The table of them drives the server, the OpenAPI document and tests. */
export interface Route<Env> extends RouteText {
  method: Method;
  /** `/sandboxes/:sandboxID`; `*` matches everything else, also slashes. */
  path: string;
  body?: z.ZodType;
  query?: z.ZodType;
  headers?: z.ZodType;
  /** Parses a request by the schemas of the route, and answers it. @throws z.ZodError */
  serve: (env: Env, call: Omit<Call, "body" | "query" | "headers" | "params">) => unknown;
}

interface RouteText {
  /** The part of the path that `*` matches. */
  wildcard?: string;
  /** For the OpenAPI document. */
  summary: string;
  /** The rights of the caller's service account. `public`: the route needs no key. */
  needs: readonly Need[] | "public";
  /** The unsupported feature, for a route that only answers that. */
  unsupported?: string;
  /** The largest body. @default 1 MiB */
  bodyLimitBytes?: number;
  /** Whether a request may take as long as an upload. @default it may take 20 s until its end */
  isLong?: boolean;
  /** Whether the handler holds only a small part of the body at a time. @default it holds the body */
  isStreamed?: boolean;
  /** The content type of a body that the handler reads from `request.body`, as a stream. @default JSON */
  bodyType?: string;
  /** The content type of the answer. @default JSON */
  answerType?: string;
  /** The bodies of successful answers by their status, of which the first one is the default. Null: there is none. */
  answers: Readonly<Record<number, z.ZodType | null>>;
}

/** A request of an authenticated client, as its route has parsed it. */
export interface Call<
  Body extends z.ZodType = z.ZodUnknown,
  Query extends z.ZodType = z.ZodUnknown,
  Headers = unknown,
> {
  request: FastifyRequest;
  reply: FastifyReply;
  caller: Caller;
  /** Aborts when the client has closed the connection. */
  signal: AbortSignal;
  /** The parameters of the path. */
  params: Readonly<Record<string, string>>;
  body: z.output<Body>;
  query: z.output<Query>;
  headers: Headers;
}

interface RouteSpec<Env, Body extends z.ZodType, Query extends z.ZodType, Headers extends z.ZodType> extends RouteText {
  /** A route without a schema ignores the body. */
  body?: Body;
  query?: Query;
  headers?: Headers;
  /** Returns the body of the answer, or sends the answer itself. */
  handle: (env: Env, call: Call<Body, Query, z.output<Headers>>) => unknown;
}

/** Returns a function that makes routes whose handlers get `Env`. */
export function routesFor<Env>() {
  return <
    Body extends z.ZodType = z.ZodUnknown,
    Query extends z.ZodType = z.ZodUnknown,
    Headers extends z.ZodType = z.ZodUnknown,
  >(
    method: Method,
    path: string,
    { handle, ...spec }: RouteSpec<Env, Body, Query, Headers>,
  ): Route<Env> => ({
    ...spec,
    method,
    path,
    serve: (env, call) => {
      const { request, reply } = call;
      void reply.code(Number(Object.keys(spec.answers)[0]));
      return handle(env, {
        ...call,
        params: request.params as Record<string, string>,
        body: parsed(spec.body, request.body),
        query: parsed(spec.query, request.query),
        headers: parsed(spec.headers, request.headers),
      });
    },
  });
}

/** A handler without a schema knows nothing about the value. */
function parsed<Schema extends z.ZodType>(schema: Schema | undefined, value: unknown): z.output<Schema> {
  if (schema === undefined) return undefined as z.output<Schema>;
  if (value === notJson) throw new RametError("InvalidArgument", "The body of the request is not JSON");
  return schema.parse(value);
}

/** In place of a body that is not JSON. */
export const notJson = Symbol("a body that is not JSON");

/** The route that returns the OpenAPI document of a dialect. */
export function documentRoute(document: () => object): Route<unknown> {
  return routesFor<unknown>()("GET", "/openapi.json", {
    summary: "Returns this document.",
    needs: "public",
    answers: { 200: z.looseObject({}) },
    handle: document,
  });
}

/** Routes of the original API that Ramet does not have: what is not supported and what to do instead, and the routes. */
export type Unsupported = Readonly<Record<string, readonly `${Method} ${string}`[]>>;

/** They answer clients with a key, so that a client without one learns nothing. */
export function unsupportedRoutes(unsupported: Unsupported): Route<unknown>[] {
  return Object.entries(unsupported).flatMap(([why, routes]) =>
    routes.map((text) => {
      const [method, path] = text.split(" ") as [Method, string];
      return routesFor<unknown>()(method, path, {
        summary: "Not supported.",
        needs: [],
        unsupported: why,
        answers: { 501: null },
        handle: () => Promise.reject(new RametError("NotSupported", why)),
      });
    }),
  );
}

/**
 * The id of a request that can be repeated, in the form of a UUID; undefined without a key of the client. Another request with
 * the same key has another id with the same `keyPartOf`.
 * @param owner whose keys these are
 */
export function requestIdOf(owner: string, { headers, method, url, body }: FastifyRequest): string | undefined {
  const [key = ""] = [headers["idempotency-key"]].flat();
  if (key === "") return undefined;
  return keyedUuidOf(JSON.stringify([owner, key]), JSON.stringify([method, url, body]));
}
