/**
 * A separate process that uses the node's cache as a cell does, so that tests can kill it: `node cache-user.ts '<CacheOrder>'`. It prints
 * a line for each step, and keeps what it has until it is killed.
 */
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { NodeCache } from "../../../src/cell/layers/node-cache.ts";
import { RametError } from "../../../src/base/errors.ts";

export interface CacheOrder {
  directory: string;
  link: string;
  name: string;
  /** The size of the entry. Its content is so many letters. */
  sizeBytes: number;
  budgetBytes: number;
  /** @default that of the cache */
  freeShare?: number;
  /** What happens while it fills the entry. */
  while?: "waits" | "is damaged" | "others write";
}

const { directory, link, name, sizeBytes, budgetBytes, freeShare, ...order } = JSON.parse(
  process.argv[2] ?? "{}",
) as CacheOrder;
const print = (line: string) => process.stdout.write(`${line}\n`);
// A pending promise alone does not keep a process alive.
setInterval(() => undefined, 1 << 30);

const report = (message: string, detail?: Record<string, unknown>) =>
  print(`${message}: ${String(detail?.["message"])}`);
const cache = new NodeCache({
  paths: { nodeCache: directory, link },
  sizeBytes: budgetBytes,
  report,
  ...(freeShare !== undefined && { freeShare }),
});
try {
  const held = await cache.provide({
    name,
    sizeBytes,
    fill: async (draft) => {
      const content = "x".repeat(sizeBytes);
      await writeFile(join(draft, "content"), content.slice(0, sizeBytes / 2));
      print("filling");
      // A promise that nothing can resolve is collected, and with it the file that has the lock.
      if (order.while === "waits") await setTimeout(1 << 30);
      if (order.while === "is damaged") throw new RametError("CheckpointLost", "it is lost");
      if (order.while === "others write") await writeFile(join(directory, "other"), "x".repeat(2 * sizeBytes));
      await writeFile(join(draft, "content"), content);
    },
    isIntact: async (path) => (await readFile(join(path, "content"), "utf8")).length === sizeBytes,
  });
  print(held === undefined ? "own directory" : `has ${(await readFile(join(held.path, "content"), "utf8")).length}`);
} catch (error) {
  print(RametError.from(error).describe());
}
