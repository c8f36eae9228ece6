import { once } from "node:events";
import { stat } from "node:fs/promises";
import { createServer } from "node:net";
import { errnoOf } from "../../../base/errno.ts";
import { RametError } from "../../../base/errors.ts";

/**
 * Keeps other drivers out of a directory, in which they would remove what this one is making. The lock is the name of an abstract
 * socket, so it ends with the process.
 * @returns a function that ends it
 * @throws RametError `Conflict`
 */
export async function lockDirectory(directory: string): Promise<() => void> {
  const { dev, ino } = await stat(directory, { bigint: true });
  const server = createServer((connection) => connection.destroy());
  server.listen(`\0ramet-csi-${dev}-${ino}`);
  try {
    await once(server, "listening");
  } catch (error) {
    if (errnoOf(error) !== "EADDRINUSE") throw error;
    throw new RametError("Conflict", `Opening ${directory} failed: another driver uses it`, {
      hint: "Stop the other driver, or choose another directory",
    });
  }
  server.unref();
  return () => {
    server.close();
  };
}
