import { lstat, readdir } from "node:fs/promises";
import { Readable } from "node:stream";
import { layerFile } from "../sandbox/root-directories.ts";

/**
 * Lists a root directory as it was before the sandbox wrote to it, for `GuestControl.changes`: what the sandbox writes is in one
 * file of gVisor, so the directory on the host stays as it was. Names are bytes: not all are UTF-8.
 */
export function rootList(rootPath: string): Readable {
  return Readable.from(records(Buffer.from(rootPath), Buffer.alloc(0)), { objectMode: false });
}

async function* records(root: Buffer, directory: Buffer): AsyncGenerator<Buffer> {
  const names = await readdir(Buffer.concat([root, slash, directory]), { encoding: "buffer" });
  const listed = names.filter((name) => directory.length > 0 || !name.toString().startsWith(layerFile));
  for (let start = 0; start < listed.length; start += atOnce) {
    const entries = await Promise.all(
      listed.slice(start, start + atOnce).map(async (name) => {
        const path = directory.length === 0 ? name : Buffer.concat([directory, slash, name]);
        return { path, stats: await lstat(Buffer.concat([root, slash, path]), { bigint: true }) };
      }),
    );
    yield Buffer.concat(entries.flatMap(({ path, stats }) => [Buffer.from(`${stats.ctimeNs} `), path, end]));
    for (const { path, stats } of entries) if (stats.isDirectory()) yield* records(root, path);
  }
}

/** A directory can have millions of entries. */
const atOnce = 1_000;

const slash = Buffer.from("/");
const end = Buffer.of(0);
