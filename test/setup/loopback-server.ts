import { once } from "node:events";
import { connect } from "node:net";
import { join } from "node:path";
import { startChild, type Child } from "../../src/local/control-plane/child.ts";
import { waitUntilReady } from "../../src/local/control-plane/readiness.ts";
import { systemClock } from "../../src/base/clock.ts";

export interface LoopbackServer {
  /** Name for messages, such as `the S3 server`. */
  what: string;
  program: string;
  args: string[];
  environment?: Record<string, string>;
  /** Working directory, which also gets the log. */
  dir: string;
  /** Port of 127.0.0.1 on which `args` let it listen. */
  port: number;
}

/** Starts a program that listens only on the loopback address, and waits until it accepts connections. */
export async function startLoopbackServer({ what, port, dir, ...run }: LoopbackServer): Promise<Child> {
  const clock = systemClock;
  const child = await startChild({ ...run, cwd: dir, logPath: join(dir, "server.log"), clock });
  await waitUntilReady(child, { what, timeoutMilliseconds: 30_000, clock, ready: () => accepts("127.0.0.1", port) });
  return child;
}

/** Whether a server accepts connections at the address. */
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
