import { once } from "node:events";
import { createServer } from "node:net";
import { addressBlock } from "./address-block.ts";

/**
 * A free TCP port of 127.0.0.1, which stays free until its server starts, and while a test has stopped that: the kernel gives ports
 * below 32768 to no program that asks for any port, and each worker of a run has its own ones.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = first + (addressBlock() - 1) * count + (used++ % count);
    if (await isFree(port)) return port;
  }
}

const first = 20_000;
/** For each worker. A port can be used again when the server of an earlier test has ended. */
const count = 40;
let used = 0;

async function isFree(port: number): Promise<boolean> {
  const server = createServer().listen(port, "127.0.0.1");
  try {
    await once(server, "listening");
  } catch {
    return false;
  }
  server.close();
  await once(server, "close");
  return true;
}
