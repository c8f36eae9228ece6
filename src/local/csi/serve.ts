import { chmod, mkdir, rm } from "node:fs/promises";
import { dirname } from "node:path";
import { Server, ServerCredentials, type ServiceDefinition, type UntypedServiceImplementation } from "@grpc/grpc-js";
import { type Clock, delay } from "../../base/clock.ts";
import { RametError } from "../../base/errors.ts";
import type { Log } from "../../base/log.ts";
import { socketAccepts } from "../../base/socket-accepts.ts";
import { grpcHandler, type Method } from "./unary.ts";

export interface ServeOptions {
  /** The path of a Unix socket. */
  socket: string;
  services: readonly ServedService[];
  clock: Clock;
  log: Log;
}

export interface ServedService {
  definition: ServiceDefinition;
  methods: Record<string, Method>;
}

/** Serves gRPC on a Unix socket that only this user can open. Resolves when it accepts calls. @returns a function that stops it */
export async function serveGrpc({ socket, services, clock, log }: ServeOptions): Promise<() => Promise<void>> {
  await mkdir(dirname(socket), { recursive: true, mode: 0o700 });
  if (await socketAccepts(socket))
    throw new RametError("Conflict", `Opening ${socket} failed: another process serves it`, {
      hint: "Stop the other driver, or choose another endpoint",
    });
  // The socket of a driver that was killed.
  await rm(socket, { force: true });
  const server = new Server({ "grpc.max_receive_message_length": mostBytes, "grpc.max_concurrent_streams": mostCalls });
  for (const { definition, methods } of services) {
    const handlers: UntypedServiceImplementation = {};
    for (const [method, handle] of Object.entries(methods)) handlers[method] = grpcHandler(method, handle, log);
    server.addService(definition, handlers);
  }
  await new Promise<void>((resolve, reject) => {
    server.bindAsync(`unix:${socket}`, ServerCredentials.createInsecure(), (error) => {
      if (error === null) resolve();
      else reject(new RametError("InvalidArgument", `Opening ${socket} failed: ${error.message}`, { cause: error }));
    });
  });
  await chmod(socket, 0o600);
  return async () => {
    const stopping = new AbortController();
    const drained = new Promise<void>((resolve) => {
      server.tryShutdown(() => {
        resolve();
      });
    });
    await Promise.race([drained, delay(clock, drainMilliseconds, stopping.signal).catch(() => undefined)]);
    stopping.abort();
    server.forceShutdown();
    await rm(socket, { force: true });
  };
}

/** CSI's messages are small: names, ids and maps of some KiB. */
const mostBytes = 1024 * 1024;
const mostCalls = 1_000;
const drainMilliseconds = 2_000;
