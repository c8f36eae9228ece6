import { once } from "node:events";
import { rm } from "node:fs/promises";
import { connect } from "node:net";
import { join } from "node:path";
import { startChild, type Child, waitUntilReady } from "../../src/local/control-plane/child.ts";
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

/** A server whose data, in its directory, outlasts its process. */
export interface RestartableServer {
  /** Kills the server: it refuses connections afterwards. Keeps its data. */
  kill(): Promise<void>;
  /** Starts the server again on its port with its data. */
  restart(): Promise<void>;
  /** Stops the server and removes its data. */
  stop(): Promise<void>;
}

/** @param end how its process is ended before a restart. @default it is killed */
export async function startRestartable(
  dir: string,
  start: () => Promise<Child>,
  end: (child: Child) => Promise<void> = (child) => child.kill(),
): Promise<RestartableServer> {
  let child = await start();
  return {
    kill: () => end(child),
    restart: async () => {
      await end(child);
      child = await start();
    },
    stop: async () => {
      await child.stop();
      await rm(dir, { recursive: true, force: true });
    },
  };
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
