import { lstatSync, readdirSync } from "node:fs";
import { setImmediate as immediate } from "node:timers/promises";
import { layerFile } from "../sandbox/root-directories.ts";

/**
 * Lists the changed directories of a root as they were before the sandbox wrote to it, for `GuestControl.changes`: what the sandbox
 * writes is in one file of gVisor, so the directory on the host stays as it was. Names are bytes, here as latin1: not all are UTF-8.
 * @param unlisted the guest's answer: directories that were changed and that a list lacks. Only entries of the root are listed, whatever it is
 */
export async function rootList(rootPath: string, unlisted: (list: Buffer) => Promise<string[]>): Promise<Buffer> {
  const root = bytes(`${rootPath}/`).toString("latin1");
  const found = new Map<string, boolean>();
  let list: Buffer = Buffer.concat(await entriesIn(root, "", found));
  for (;;) {
    const asked = (await unlisted(list)).flatMap((path) => {
      const isDirectory = found.get(path);
      found.delete(path);
      return isDirectory === undefined ? [] : [{ path, isDirectory }];
    });
    if (asked.length === 0) return list;
    const added: Buffer[] = [list];
    for (const { path, isDirectory } of asked) {
      added.push(bytes(`0 ${path}/\0`));
      if (isDirectory) added.push(...(await entriesIn(root, `${path}/`, found)));
    }
    list = Buffer.concat(added);
  }
}

async function entriesIn(root: string, directory: string, found: Map<string, boolean>): Promise<Buffer[]> {
  const listed: Buffer[] = [];
  for (const name of readdirSync(bytes(root + directory), { encoding: "latin1" })) {
    if (directory === "" && name.startsWith(layerFile)) continue;
    const path = directory + name;
    // Asynchronous calls take five times as long.
    const stats = lstatSync(bytes(root + path), { bigint: true });
    found.set(path, stats.isDirectory());
    listed.push(bytes(`${stats.ctimeNs} ${path}\0`));
    // The cell has other calls to answer.
    if (listed.length % atOnce === 0) await immediate();
  }
  return listed;
}

const atOnce = 500;

function bytes(text: string): Buffer {
  return Buffer.from(text, "latin1");
}
