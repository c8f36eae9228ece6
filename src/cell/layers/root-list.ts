import { lstatSync, readdirSync } from "node:fs";
import { Readable } from "node:stream";
import { setImmediate as immediate } from "node:timers/promises";
import { layerFile } from "../sandbox/root-directories.ts";

/**
 * Lists a root directory as it was before the sandbox wrote to it, for `GuestControl.changes`: what the sandbox writes is in one
 * file of gVisor, so the directory on the host stays as it was. Names are bytes, here as latin1: not all are UTF-8.
 */
export function rootList(rootPath: string): Readable {
  return Readable.from(inBatches(records(Buffer.from(`${rootPath}/`).toString("latin1"), "")), { objectMode: false });
}

/** Asynchronous calls take five times as long. The cell's other calls wait for one batch only. */
async function* inBatches(all: Iterable<string>): AsyncGenerator<Buffer> {
  let batch: string[] = [];
  for (const record of all) {
    batch.push(record);
    if (batch.length < atOnce) continue;
    yield bytes(batch.join(""));
    batch = [];
    await immediate();
  }
  yield bytes(batch.join(""));
}

const atOnce = 500;

function* records(root: string, directory: string): Generator<string> {
  for (const name of readdirSync(bytes(root + directory), { encoding: "latin1" })) {
    if (directory === "" && name.startsWith(layerFile)) continue;
    const path = directory + name;
    const stats = lstatSync(bytes(root + path), { bigint: true });
    yield `${stats.ctimeNs} ${path}\0`;
    if (stats.isDirectory()) yield* records(root, `${path}/`);
  }
}

function bytes(text: string): Buffer {
  return Buffer.from(text, "latin1");
}
