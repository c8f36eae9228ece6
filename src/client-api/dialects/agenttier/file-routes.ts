import { posix } from "node:path";
import { PassThrough, type Readable, Transform } from "node:stream";
import { finished, pipeline } from "node:stream/promises";
import { ZipFile } from "yazl";
import * as z from "zod";
import type { Clock } from "../../../base/clock.ts";
import { defined } from "../../../base/defined.ts";
import { RametError } from "../../../base/errors.ts";
import { within } from "../../../base/within.ts";
import type { GuestClient } from "../../../cell/client/guest-client.ts";
import type { FileEntry } from "../../../cell/client/guest-wire.ts";
import { needs } from "../../keys/needs.ts";
import { type AgentTierRoute, type Call, guestFor, route } from "./call.ts";

/** The directory of a sandbox's work, in AgentTier that of its volume. */
const workspace = "/workspace";

/**
 * A path of a client without `.` and `..`.
 * @param root the directory that it must not leave
 * @throws RametError `InvalidArgument`
 */
export function pathBelow(text: string, root = "/"): string {
  const path = posix.normalize(`/${text}`).replace(/(?<=.)\/$/, "");
  if (/[\0\n\r]/.test(path)) throw new RametError("InvalidArgument", "path contains a character that no path may have");
  if (root === "/" || path === root || path.startsWith(`${root}/`)) return path;
  throw new RametError("InvalidArgument", `path must be below ${root}`);
}

/** As in AgentTier. */
const mostFileBytes = 32 * 1024 * 1024;

const Path = z.string().min(1).max(4096).default(workspace);
const Directory = z.looseObject({ path: Path.describe("An absolute path. A missing /workspace counts as empty.") });
const Entries = z.object({
  path: z.string(),
  entries: z.array(
    z
      .object({
        name: z.string(),
        size: z.int(),
        isDir: z.boolean(),
        mode: z.string(),
        modifiedAt: z.int().optional().describe("Seconds since 1970."),
      })
      .meta({ id: "FileEntry" }),
  ),
});
const Bytes = z.string().describe("The bytes of the file.");

export const fileRoutes: readonly AgentTierRoute[] = [
  route("GET", "/sandboxes/:id/files/", {
    summary: "Lists a directory.",
    needs: needs.enter,
    query: Directory,
    answers: { 200: Entries },
    handle: async (agentTier, call) => {
      const path = pathBelow(call.query.path);
      const listed = await entriesOf(await guestFor(agentTier, call), path);
      const entries = listed.map(({ name, size, type, permissions, modifiedTime }) => ({
        name,
        size,
        isDir: type === "directory",
        mode: permissions,
        ...(modifiedTime && { modifiedAt: Math.floor(modifiedTime.getTime() / 1000) }),
      }));
      return { path, entries };
    },
  }),
  route("GET", "/sandboxes/:id/files/*", {
    summary: "Returns a file of at most 32 MiB.",
    needs: needs.enter,
    answerType: "application/octet-stream",
    answers: { 200: Bytes },
    handle: async (agentTier, call) => {
      const path = pathOf(call.params);
      const guest = await guestFor(agentTier, call);
      const { type, size, name } = await guest.stat(path);
      if (type === "directory") throw new RametError("InvalidArgument", `${path} is a directory`);
      if (size > mostFileBytes) throw tooLarge(path);
      const content = await guest.readFile(path, call.signal);
      void call.reply.header("content-disposition", `attachment; filename*=UTF-8''${encodeURIComponent(name)}`);
      void call.reply.type("application/octet-stream");
      return content;
    },
  }),
  route("PUT", "/sandboxes/:id/files/*", {
    summary: "Creates or replaces a file of at most 32 MiB, and creates its parent directories.",
    needs: needs.enter,
    bodyLimitBytes: mostFileBytes,
    isLong: true,
    isStreamed: true,
    bodyType: "application/octet-stream",
    answers: { 201: z.object({ path: z.string(), bytes: z.int() }) },
    handle: async (agentTier, call) => {
      const path = pathOf(call.params);
      if (Number(call.request.headers["content-length"] ?? 0) > mostFileBytes) throw tooLarge(path);
      const guest = await guestFor(agentTier, call);
      const content = call.request.body as Readable | undefined;
      const counted = content && limited(content, path);
      await guest.writeFile(path, counted?.stream ?? Buffer.alloc(0), call.signal).catch((error: unknown) => {
        throw counted?.stream.errored ?? error;
      });
      return { path, bytes: counted?.bytes() ?? 0 };
    },
  }),
  route("GET", "/sandboxes/:id/archive", {
    summary: "Returns a directory below /workspace as a zip file of at most 5 GiB.",
    needs: needs.enter,
    query: Directory,
    answerType: "application/zip",
    answers: { 200: z.string().describe("The bytes of the zip file.") },
    handle: async (agentTier, call) => {
      const path = pathBelow(call.query.path, workspace);
      const guest = await guestFor(agentTier, call);
      const entries = await entriesOf(guest, path);
      const { clock } = agentTier.service;
      const stream = zipOf(guest, { path, entries, clock, signal: call.signal });
      void call.reply.header("content-disposition", `attachment; filename="workspace.zip"`);
      void call.reply.type("application/zip");
      return stream;
    },
  }),
];

/** The client sends the path of a file without its first slash. */
function pathOf({ "*": path = "" }: Call["params"]): string {
  return pathBelow(`/${path}`);
}

/** A directory's own entries. In AgentTier every sandbox has a workspace. */
async function entriesOf(guest: GuestClient, path: string) {
  return guest.list(path).catch((error: unknown) => {
    if (path === workspace && RametError.from(error).code === "NotFound") return [];
    throw error;
  });
}

/** A body that fails when it is too large. */
function limited(body: Readable, path: string): { stream: Transform; bytes: () => number } {
  let bytes = 0;
  const stream = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      bytes += chunk.length;
      if (bytes > mostFileBytes) done(tooLarge(path));
      else done(null, chunk);
    },
  });
  // A client can leave before the sandbox takes the content. An error that nobody awaits yet would end the process.
  stream.on("error", () => undefined);
  body.once("error", (error) => stream.destroy(error));
  body.pipe(stream);
  return { stream, bytes: () => bytes };
}

function tooLarge(path: string): RametError {
  return new RametError("OutOfRange", `${path} is larger than ${mostFileBytes} bytes`, {
    hint: "Download it inside of the sandbox, or split it",
  });
}

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
