import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { canceled, type Clock, delay } from "../../base/clock.ts";
import { RametError } from "../../base/errors.ts";
import type { Child } from "./child.ts";

export interface ReadinessOptions {
  /** What is waited for, as a message names it. */
  what: string;
  ready: () => Promise<boolean>;
  timeoutMilliseconds: number;
  clock: Clock;
  signal?: AbortSignal;
}

/**
 * Asks until the child is ready. If it ends before that, or time runs out, or the caller gives up, the child is killed
 * and the error has its last words.
 */
export async function waitUntilReady(child: Child, options: ReadinessOptions): Promise<void> {
  const { clock, signal, what } = options;
  const deadline = clock.monotonicMilliseconds() + options.timeoutMilliseconds;
  try {
    for (let pause = 5; !(await options.ready()); pause = Math.min(pause * 1.5, 25)) {
      if (signal?.aborted === true) throw canceled(`Starting ${what}`, signal);
      if (!child.running()) throw await failed(child, `it ended with ${await child.ended}`, what);
      if (clock.monotonicMilliseconds() > deadline) {
        throw await failed(child, `it was not ready after ${options.timeoutMilliseconds / 1000} s`, what);
      }
      await delay(clock, pause, signal);
    }
  } catch (error) {
    await child.kill();
    throw error;
  }
}

async function failed(child: Child, why: string, what: string): Promise<RametError> {
  return new RametError("Unavailable", `Starting ${what} failed: ${why}: ${await child.lastWords()}`, {
    hint: "Its whole log lies in the cluster's folder.",
    retryable: true,
  });
}

/** A loopback TCP port that nobody has just now; whoever takes it must reckon with being late. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}
