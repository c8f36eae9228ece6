import { createHash } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:net";
import { cellPort } from "../../api/cell/cell-api.ts";
import { RametError } from "../../base/errors.ts";

const mostTries = 64;

/**
 * A loopback address for a Pod out of 127.64.0.0/10, unlike those in `taken` and free on the machine: other clusters and
 * users draw from the same range. On Linux every address of 127.0.0.0/8 is the machine's own without being configured.
 */
export async function chooseAddress(uid: string, taken: ReadonlySet<string>): Promise<string> {
  for (let attempt = 0; attempt < mostTries; attempt += 1) {
    const address = candidate(uid, attempt);
    if (!taken.has(address) && (await isFree(address))) return address;
  }
  throw new RametError("Unavailable", `Choosing an address for Pod ${uid} failed: ${mostTries} tried are all in use`, {
    retryable: true,
  });
}

/** Drawn from the UID, so that two clusters hardly ever meet. */
export function candidate(uid: string, attempt: number): string {
  const bits = createHash("sha256").update(`${uid}/${attempt}`).digest().readUInt32BE(0) & 0x3fffff;
  // Neither the first nor the last address of a /24: some programs take them for a network and a broadcast address.
  const last = ((bits & 0xff) % 254) + 1;
  return `127.${64 + (bits >>> 16)}.${(bits >>> 8) & 0xff}.${last}`;
}

async function isFree(address: string): Promise<boolean> {
  const server = createServer();
  try {
    server.listen(cellPort, address);
    await once(server, "listening");
    server.close();
    await once(server, "close");
    return true;
  } catch {
    return false;
  }
}
