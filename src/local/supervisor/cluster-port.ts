import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { ClusterFolder } from "../cluster-folder.ts";
import { portWasTaken } from "../control-plane/api-server.ts";
import { freePort } from "../control-plane/free-port.ts";

const mostTries = 5;

/**
 * Serves at the port that the cluster had before, so that kubeconfigs that were copied stay good; at a free one when it
 * is new or another program has taken the port.
 */
export async function clusterPort<T>(folder: ClusterFolder, serve: (port: number) => Promise<T>): Promise<T> {
  const path = join(folder.path, "port");
  let port = known(path) ?? (await freePort());
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

function known(path: string): number | undefined {
  try {
    const port = Number(readFileSync(path, "utf8"));
    return Number.isInteger(port) && port > 0 ? port : undefined;
  } catch {
    return undefined;
  }
}
