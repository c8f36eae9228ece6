import { once } from "node:events";
import { connect } from "node:net";
import { join } from "node:path";
import { startChild, type Child } from "../../src/local/control-plane/child.ts";
import { waitUntilReady } from "../../src/local/control-plane/readiness.ts";
import { systemClock } from "../../src/base/clock.ts";

export interface LoopbackServer {
  /** For people, such as `the S3 server`. */
  what: string;
  program: string;
  args: string[];
  environment?: Record<string, string>;
  /** Its working folder, with its log. */
  dir: string;
  /** Of 127.0.0.1, on which it has been told to listen. */
  port: number;
}

/** Starts a program that serves this machine alone, and waits until it takes connections. */
export async function startLoopbackServer({ what, port, dir, ...run }: LoopbackServer): Promise<Child> {
  const clock = systemClock;
  const child = await startChild({ ...run, cwd: dir, logPath: join(dir, "server.log"), clock });
  await waitUntilReady(child, { what, timeoutMilliseconds: 30_000, clock, ready: () => accepts("127.0.0.1", port) });
  return child;
}

/** Whether somebody takes connections there. */
export async function accepts(host: string, port: number): Promise<boolean> {
  const socket = connect(port, host);
  try {
    await once(socket, "connect");
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}
