import { readFileSync, writeFileSync } from "node:fs";
import { portWasTaken } from "../control-plane/api-server.ts";
import { freePort } from "../control-plane/readiness.ts";

const maxTries = 5;

/**
 * Serves on the cluster's previous port, so that copies of kubeconfigs and addresses stay valid. Uses a free port for a new
 * cluster or if another program uses the port.
 * @param path the file with the port
 */
export async function keptPort<T>(path: string, serve: (port: number) => Promise<T>): Promise<T> {
  let port = readPort(path) ?? (await freePort());
  for (let attempt = 1; ; attempt += 1) {
    try {
      const result = await serve(port);
      writeFileSync(path, String(port), { mode: 0o600 });
      return result;
    } catch (error) {
      if (attempt >= maxTries || !portWasTaken(error)) throw error;
      port = await freePort();
    }
  }
}

/** Reads the port from such a file. */
export function readPort(path: string): number | undefined {
  try {
    const port = Number(readFileSync(path, "utf8"));
    return Number.isInteger(port) && port > 0 ? port : undefined;
  } catch {
    return undefined;
  }
}
