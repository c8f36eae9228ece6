import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { canceled, type Clock, delay } from "../../base/clock.ts";
import { RametError } from "../../base/errors.ts";
import type { Child } from "./child.ts";

export interface ReadinessOptions {
  /** The program's name in messages, such as "the API server". */
  what: string;
  ready: () => Promise<boolean>;
  timeoutMilliseconds: number;
  clock: Clock;
  signal?: AbortSignal;
}

/**
 * Polls until the child is ready. If the child ends early, the time limit passes or `signal` is aborted, kills the child and
 * throws an error with the last lines of its log.
 */
export async function waitUntilReady(child: Child, options: ReadinessOptions): Promise<void> {
  const { clock, signal, what } = options;
  const deadline = clock.monotonicMilliseconds() + options.timeoutMilliseconds;
  try {
    for (let pause = 5; !(await options.ready()); pause = Math.min(pause * 1.5, 25)) {
      if (signal?.aborted === true) throw canceled(`Starting ${what}`, signal);
      if (!child.running()) throw await failed(child, `ended with ${await child.ended}`, what);
      if (clock.monotonicMilliseconds() > deadline) {
        throw await failed(child, `not ready after ${options.timeoutMilliseconds / 1000} s`, what);
      }
      await delay(clock, pause, signal);
    }
  } catch (error) {
    await child.kill();
    throw error;
  }
}

async function failed(child: Child, why: string, what: string): Promise<RametError> {
  return new RametError("Unavailable", `Starting ${what} failed: ${why}: ${await child.lastLogLines()}`, {
    hint: "See the whole log in the cluster's directory",
    retryable: true,
  });
}

/** A free TCP port of 127.0.0.1. Another program may take it before the caller does. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}
