import type { FastifyReply, FastifyRequest } from "fastify";
import type * as z from "zod";
import type { Caller, Need } from "../keys/callers.ts";

export type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";

/** A route of a dialect. The table of them drives the server, the OpenAPI document and tests. */
export interface Route<Env> extends RouteText {
  body?: z.ZodType;
  query?: z.ZodType;
  headers?: z.ZodType;
  /** Parses a request by the schemas of the route, and answers it. @throws z.ZodError */
  serve: (env: Env, call: Omit<Call, "body" | "query" | "headers">) => Promise<unknown>;
}

interface RouteText {
  method: Method;
  /** `/sandboxes/:sandboxID`; `*` matches everything else, also slashes. */
  path: string;
  /** The part of the path that `*` matches. */
  wildcard?: string;
  /** For the OpenAPI document. */
  summary: string;
  /** The rights of the caller's service account. `public`: the route needs no key. */
  needs: readonly Need[] | "public";
  /** The unsupported feature, for a route that only answers that. */
  unsupported?: string;
  /** The largest body. A request with one may take as long as an upload. @default 1 MiB */
  bodyLimitBytes?: number;
  /** The content type of a body that the handler reads from `request.body`, as a stream. @default JSON */
  bodyType?: string;
  /** The content type of the answer. @default JSON */
  answerType?: string;
  /** The bodies of successful answers by their status. Null: there is none. */
  answers: Readonly<Record<number, z.ZodType | null>>;
}

/** A request of an authenticated client, as its route has parsed it. */
export interface Call<Body = unknown, Query = unknown, Headers = unknown> {
  request: FastifyRequest;
  reply: FastifyReply;
  caller: Caller;
  /** Aborts when the client has closed the connection. */
  signal: AbortSignal;
  body: Body;
  query: Query;
  headers: Headers;
}

export interface RouteSpec<
  Env,
  Body extends z.ZodType,
  Query extends z.ZodType,
  Headers extends z.ZodType,
> extends RouteText {
  /** A route without a schema ignores the body. */
  body?: Body;
  query?: Query;
  headers?: Headers;
  handle: (env: Env, call: Call<z.output<Body>, z.output<Query>, z.output<Headers>>) => Promise<unknown>;
}

/** Returns a function that makes routes whose handlers get `Env`. */
export function routesFor<Env>() {
  return <
    Body extends z.ZodType = z.ZodUnknown,
    Query extends z.ZodType = z.ZodUnknown,
    Headers extends z.ZodType = z.ZodUnknown,
  >(
    spec: RouteSpec<Env, Body, Query, Headers>,
  ): Route<Env> => {
    const { handle, ...rest } = spec;
    const { body, query, headers } = rest;
    return {
      ...rest,
      serve: (env, call) => {
        const { request } = call;
        return handle(env, {
          ...call,
          body: parsed(body, request.body),
          query: parsed(query, request.query),
          headers: parsed(headers, request.headers),
        });
      },
    };
  };
}

/** A handler without a schema knows nothing about the value. */
function parsed<Schema extends z.ZodType>(schema: Schema | undefined, value: unknown): z.output<Schema> {
  return schema === undefined ? (undefined as z.output<Schema>) : schema.parse(value);
}
