import { gatewayKeySecret, privateKeyEntry, systemNamespace } from "../api/names/system-names.ts";
import { delay } from "../base/clock.ts";
import { RametError } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import { within } from "../base/within.ts";
import type { CellClient } from "../cell/client/cell-client.ts";
import { type CellKey, cellKeyFromPem } from "../cell/client/cell-token.ts";
import type { KubeClient } from "../kube/kube-client.ts";
import { secretBytes } from "../kube/object.ts";

const at = { namespace: systemNamespace, name: gatewayKeySecret };
const pauseMilliseconds = 250;
/** A cell that lacks the key, as one that is older than it, must not cause a request to the API server for each client. */
const betweenReadsMilliseconds = 1_000;
const limitMilliseconds = 3_000;

/** Returns the key of this cluster's gateways. Waits until the controllers create it. @throws RametError `Forbidden`, `Canceled` */
export async function gatewayKey(client: KubeClient, log: Log, signal: AbortSignal): Promise<CellKey> {
  for (let attempt = 0; ; attempt += 1) {
    const found = await findKey(client, signal);
    if (found !== undefined) return found;
    if (attempt === 0)
      log.info({ secret: `${at.namespace}/${at.name}` }, "waiting for the controllers to create the gateway's key");
    await delay(client.clock, pauseMilliseconds, signal);
  }
}

/**
 * Dials cells. When a cell refuses the key, reads it again, because it may have been rotated, and repeats the call with the new
 * key, so that no request fails because of a rotation.
 */
export function dialWithCurrentKey(
  cells: Pick<CellClient, "dial" | "useKey">,
  { key, client, log }: { key: CellKey; client: KubeClient; log: Log },
): Pick<CellClient, "dial"> {
  const { clock } = client;
  let current = key.publicKey;
  let last: { at: number; read: Promise<void> } | undefined;
  const readAgain = async (): Promise<void> => {
    try {
      const deadline = { clock, milliseconds: limitMilliseconds, what: "Reading the Secret" };
      const found = await within(deadline, (signal) => findKey(client, signal));
      if (found === undefined || found.publicKey === current) return;
      current = found.publicKey;
      cells.useKey(found);
      log.info({ publicKey: current }, "the gateway's key was rotated");
    } catch (error) {
      log.warn({ error: RametError.from(error).describe() }, "the gateway's key cannot be read");
    }
  };
  return {
    async dial(cell, port, signal) {
      const used = current;
      try {
        return await cells.dial(cell, port, signal);
      } catch (error) {
        if (RametError.from(error).code !== "Unauthorized") throw error;
        const now = clock.monotonicMilliseconds();
        if (used === current && (last === undefined || now - last.at >= betweenReadsMilliseconds))
          last = { at: now, read: readAgain() };
        await last?.read;
        if (used === current) throw error;
        return cells.dial(cell, port, signal);
      }
    },
  };
}

async function findKey(client: KubeClient, signal: AbortSignal): Promise<CellKey | undefined> {
  const found = await client.secrets.find(at, { signal });
  return found && cellKeyFromPem(secretBytes(found, privateKeyEntry).toString("utf8"));
}
