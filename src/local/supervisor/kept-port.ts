import { readFileSync, writeFileSync } from "node:fs";
import { portWasTaken } from "../control-plane/api-server.ts";
import { freePort } from "../control-plane/readiness.ts";

const mostTries = 5;

/**
 * Serves at the port that the cluster had before, so that kubeconfigs and addresses that were copied stay good; at a free one when it
 * is new or another program has taken the port.
 * @param path the file that remembers it
 */
export async function keptPort<T>(path: string, serve: (port: number) => Promise<T>): Promise<T> {
  let port = readPort(path) ?? (await freePort());
  for (let attempt = 1; ; attempt += 1) {
    try {
      const result = await serve(port);
      writeFileSync(path, String(port), { mode: 0o600 });
      return result;
    } catch (error) {
      if (attempt >= mostTries || !portWasTaken(error)) throw error;
      port = await freePort();
    }
  }
}

/** The port that such a file remembers. */
export function readPort(path: string): number | undefined {
  try {
    const port = Number(readFileSync(path, "utf8"));
    return Number.isInteger(port) && port > 0 ? port : undefined;
  } catch {
    return undefined;
  }
}
