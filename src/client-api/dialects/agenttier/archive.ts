import { PassThrough, type Readable, Transform } from "node:stream";
import { finished, pipeline } from "node:stream/promises";
import { ZipFile } from "yazl";
import type { Clock } from "../../../base/clock.ts";
import { defined } from "../../../base/defined.ts";
import { RametError } from "../../../base/errors.ts";
import { within } from "../../../base/within.ts";
import type { GuestClient } from "../../../cell/client/guest-client.ts";
import type { FileEntry } from "../../../cell/client/guest-wire.ts";

const mostBytes = 5 * 1024 ** 3;
const mostEntries = 500_000;
/** The paths are in memory until the end. */
const mostPathBytes = 64 * 1024 ** 2;
const longestMilliseconds = 2 * 3_600_000;

export interface Archive {
  /** The directory, whose name is in no path of the archive. */
  path: string;
  /** The entries of the directory. */
  entries: readonly FileEntry[];
  clock: Clock;
  signal: AbortSignal;
}

/**
 * Returns a directory of a sandbox as a zip file, which is read while it is sent. Files that are deleted meanwhile are left out, and
 * so are symbolic links and special files. An archive that is too large or takes too long breaks off.
 */
export function zipOf(guest: GuestClient, { path, entries, clock, signal }: Archive): Readable {
  const zip = new ZipFile();
  const output = new PassThrough();
  zip.outputStream.pipe(output);
  const budget: Budget = { bytes: mostBytes, entries: mostEntries, pathBytes: mostPathBytes };
  // A zip file reports the errors of its streams itself.
  zip.on("error", (error) => output.destroy(RametError.from(error)));
  const deadline = { clock, milliseconds: longestMilliseconds, what: "The archive", signal };
  within(deadline, (either) => addAll({ guest, zip, budget, signal: either }, entries, path, "")).then(
    () => {
      zip.end();
    },
    (error: unknown) => {
      output.destroy(RametError.from(error));
    },
  );
  return output;
}

interface Budget {
  bytes: number;
  entries: number;
  pathBytes: number;
}

interface Adding {
  guest: GuestClient;
  zip: ZipFile;
  budget: Budget;
  signal: AbortSignal;
}

async function addAll(adding: Adding, entries: readonly FileEntry[], path: string, inZip: string): Promise<void> {
  const { guest, zip, budget } = adding;
  for (const entry of entries) {
    adding.signal.throwIfAborted();
    if (--budget.entries < 0) throw new RametError("OutOfRange", `${path} has more than ${mostEntries} entries`);
    const { name, type, symlinkTarget } = entry;
    if (symlinkTarget !== undefined) continue;
    // Names of zip files have no backslashes.
    const [from, to] = [`${path}/${name}`, `${inZip}${name.replaceAll("\\", "_")}`];
    budget.pathBytes -= Buffer.byteLength(to);
    if (budget.pathBytes < 0) throw new RametError("OutOfRange", `The paths have more than ${mostPathBytes} bytes`);
    if (type === "directory") {
      zip.addEmptyDirectory(to, defined({ mtime: timeInZip(entry) }));
      const inside = await existing(guest.list(from));
      await addAll(adding, inside ?? [], from, `${to}/`);
    } else if (type === "file") {
      const content = await existing(guest.readFile(from, adding.signal));
      if (content !== undefined) await addFile(adding, content, to, entry);
    }
  }
}

async function addFile({ zip, budget }: Adding, content: Readable, to: string, entry: FileEntry): Promise<void> {
  const counted = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      budget.bytes -= chunk.length;
      if (budget.bytes >= 0) done(null, chunk);
      else done(new RametError("OutOfRange", `The archive is larger than ${mostBytes} bytes`));
    },
  });
  const options = { mode: regularFile | (entry.mode & 0o777), ...defined({ mtime: timeInZip(entry) }) };
  zip.addReadStream(counted, to, options);
  await Promise.all([pipeline(content, counted), finished(counted)]);
}

const regularFile = 0o100000;

/** `yazl` ends the process for a time before 1970, which every file can have. */
function timeInZip({ modifiedTime }: FileEntry): Date | undefined {
  return modifiedTime && new Date(Math.max(0, modifiedTime.getTime()));
}

/** Undefined for a file that was deleted, or that nobody may read. */
async function existing<T>(reading: Promise<T>): Promise<T | undefined> {
  return reading.catch((error: unknown) => {
    const { code } = RametError.from(error);
    if (code === "NotFound" || code === "Forbidden" || code === "InvalidArgument") return undefined;
    throw error;
  });
}
