import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import * as z from "zod";
import { defined } from "../../base/defined.ts";
import type { ErrorCode } from "../../base/error-codes.ts";
import { RametError } from "../../base/errors.ts";
import { statusOf } from "../../base/http.ts";
import type { Callers } from "../keys/callers.ts";
import { callerOf, withKey, untilClosed } from "./admission.ts";
import type { Route } from "./route.ts";

/** Serves routes to authenticated clients that have the rights which a route needs. */
export function serveRoutes<Env extends { callers: Callers }>(
  server: FastifyInstance,
  routes: readonly Route<Env>[],
  env: Env,
): void {
  const [json = [], streams = []] = [false, true].map((isStream) =>
    routes.filter(({ bodyType }) => (bodyType !== undefined) === isStream),
  );
  serveStreams(server, (instance) => {
    for (const route of streams) serveRoute(instance, route, env);
  });
  for (const route of json) serveRoute(server, route, env);
}

/** Registers routes whose handlers read the body as a stream. */
export function serveStreams(server: FastifyInstance, register: (streams: FastifyInstance) => void): void {
  void server.register((streams, _options, done) => {
    streams.removeAllContentTypeParsers();
    streams.addContentTypeParser("*", (_request, body, parsed) => {
      parsed(null, body);
    });
    register(streams);
    done();
  });
}

function serveRoute<Env extends { callers: Callers }>(
  server: FastifyInstance,
  { method, path: url, needs, bodyLimitBytes, isLong = false, isStreamed = false, serve }: Route<Env>,
  env: Env,
): void {
  const access = needs === "public" ? needs : withKey(env.callers, ...needs);
  server.route({
    method,
    url,
    ...defined({ bodyLimit: bodyLimitBytes }),
    config: { access, isLong, isStreamed },
    handler: async (request, reply) =>
      await serve(env, { request, reply, caller: callerOf(request), signal: untilClosed(reply) }),
  });
}

/** The address at which the client has reached the server. Only the client itself uses it. */
export function originOf({ headers, protocol, host }: FastifyRequest): string {
  return `${headers["x-forwarded-proto"] === "https" ? "https" : protocol}://${host}`;
}

/** Answers errors and unknown paths in the form of a dialect. */
export function answerErrors(
  server: FastifyInstance,
  errorAnswer: (thrown: unknown) => { status: number; body: object },
): void {
  const answer = (error: unknown, request: FastifyRequest, reply: FastifyReply): void => {
    const { status, body } = errorAnswer(error);
    if (status >= 500) request.log.error({ id: request.id, err: error }, "a request failed");
    void reply.code(status).send(body);
  };
  server.setErrorHandler(answer);
  server.setNotFoundHandler((request, reply) => {
    const path = request.url.split("?")[0] ?? "";
    const error = new RametError("NotFound", `There is no ${request.method} ${path.slice(0, 200)}`);
    answer(error, request, reply);
  });
}

/** The status of a request that the server could not read, such as 413; undefined for other errors. */
export function unreadableStatus(thrown: unknown): number | undefined {
  const { statusCode } = thrown as { statusCode?: unknown };
  return typeof statusCode === "number" && statusCode >= 400 && statusCode < 500 ? statusCode : undefined;
}

/** The status of the answer to a failed request. One that the server could not read keeps its status. */
export function errorStatus(thrown: unknown, { code }: Pick<RametError, "code">): number {
  return unreadableStatus(thrown) ?? statuses[code] ?? statusOf(code);
}

/** The statuses of errors for clients, where they differ from those of other HTTP servers of Ramet. */
const statuses: Partial<Record<ErrorCode, number>> = {
  AlreadyExists: 409,
  BackendMissing: 503,
  Canceled: 499,
  CaptureRefused: 409,
  CheckpointNotReady: 409,
  CpuFeaturesMissing: 503,
  EngineMissing: 503,
  GuestUnreachable: 503,
  KeyUnavailable: 503,
  NotSupported: 501,
  OutOfRange: 413,
  QuotaExceeded: 403,
  SandboxUnreachable: 502,
  StoreFull: 503,
  StoreReadOnly: 503,
  StoreUnavailable: 503,
  TemplateMismatch: 400,
  TooManyRequests: 429,
  VolumeNotShareable: 409,
  VolumesFull: 503,
  VolumesNotCaptured: 409,
};

/** The error of a request that was rejected. @param invalid begins the message about a request that its schema rejects */
export function requestError(thrown: unknown, invalid: string): RametError {
  if (thrown instanceof z.ZodError) return new RametError("InvalidArgument", `${invalid}: ${z.prettifyError(thrown)}`);
  if (unreadableStatus(thrown) === undefined) return RametError.from(thrown);
  return new RametError("InvalidArgument", `The server cannot read the request: ${RametError.from(thrown).message}`);
}

/** `message. hint` */
export function messageWithHint({ message, hint }: RametError): string {
  return hint === undefined ? message : `${message}. ${hint}`;
}
