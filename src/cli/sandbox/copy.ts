import { createReadStream, createWriteStream } from "node:fs";
import { chmod, rename, rm, stat, mkdir } from "node:fs/promises";
import { basename, join, posix } from "node:path";
import { type Readable, PassThrough, Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { create, extract } from "tar";
import { defined } from "../../base/defined.ts";
import { RametError, whyUnreadable } from "../../base/errors.ts";
import type { GuestClient } from "../../cell/client/guest-client.ts";
import { withCluster, type ClusterOptions } from "../cluster/cluster.ts";
import type { AccessFlags } from "../cluster/gateway-credentials.ts";
import { withGuest } from "../cluster/guest-access.ts";
import { writeAll, type Io } from "../io.ts";
import { runCommand } from "./run-command.ts";

export interface CopyOptions extends ClusterOptions, AccessFlags {
  /** A local file, `NAME:/path`, or `-`. */
  from: string;
  to: string;
  user?: string;
}

/** `ramet sandbox cp`: copies a file or a directory into or out of a sandbox. */
export async function copyFile(io: Io, options: CopyOptions): Promise<void> {
  const from = inSandbox(options.from);
  const to = inSandbox(options.to);
  const inside = from ?? to;
  if (inside === undefined || (from !== undefined && to !== undefined)) {
    throw new RametError(
      "InvalidArgument",
      "Cannot copy: one of the two paths must be in a sandbox, and the other on this machine",
      { hint: "Write a path in a sandbox as NAME:/path" },
    );
  }
  return withCluster(io, options, async (cluster) => {
    const access = { sandbox: inside.sandbox, flags: options, user: options.user };
    await withGuest(io, cluster, access, (guest) =>
      from === undefined ? upload(io, guest, options.from, inside.path) : download(io, guest, from.path, options.to),
    );
  });
}

function inSandbox(text: string): { sandbox: string; path: string } | undefined {
  const [, sandbox, path] = /^([a-z0-9][-a-z0-9]*):(\/.*)$/s.exec(text) ?? [];
  return sandbox === undefined || path === undefined ? undefined : { sandbox, path };
}

async function upload(io: Io, guest: GuestClient, from: string, to: string): Promise<void> {
  if (from === "-") {
    await guest.writeFile(to, io.stdin, io.signal);
    return;
  }
  const found = await stat(from).catch((error: unknown) => {
    throw new RametError("NotFound", `Cannot read ${from}: ${whyUnreadable(error)}`, { cause: error });
  });
  if (found.isDirectory()) {
    await uploadDirectory(io, guest, from, to);
    return;
  }
  if (!found.isFile()) throw noFile(from);
  const path = to.endsWith("/") ? posix.join(to, basename(from)) : to;
  await guest.writeFile(path, createReadStream(from), io.signal);
  await setMode(io, guest, path, found.mode & permissionBits);
}

/** Without set-uid bits, as for the files of a directory. */
const permissionBits = 0o777;

/** The program `chmod` is only needed for another mode than that of a new file. */
async function setMode(io: Io, guest: GuestClient, path: string, mode: number): Promise<void> {
  if (((await guest.stat(path)).mode & permissionBits) === mode) return;
  const command = ["chmod", mode.toString(8), path] as const;
  const exitCode = await runCommand(io, guest, { command: [...command], terminal: undefined });
  if (exitCode !== 0)
    throw new RametError("Internal", `Cannot set the mode of ${path}: chmod exited with code ${exitCode}`);
}

async function download(io: Io, guest: GuestClient, from: string, to: string): Promise<void> {
  const { type, mode } = await guest.stat(from).catch((error: unknown) => {
    throw RametError.from(error).code === "NotFound"
      ? new RametError("NotFound", `Cannot read ${from} in the sandbox: it does not exist`, { cause: error })
      : error;
  });
  if (type === "directory") {
    if (to === "-") throw noFile(from);
    await downloadDirectory(io, guest, from, to);
    return;
  }
  const content = await guest.readFile(from, io.signal);
  if (to === "-") {
    for await (const chunk of content as AsyncIterable<Buffer>) await writeAll(io.stdout, chunk);
    return;
  }
  const isDirectory = await stat(to).then(
    (found) => found.isDirectory(),
    () => false,
  );
  await writeWhole(content, isDirectory ? join(to, posix.basename(from)) : to, mode & permissionBits);
}

/** Writes to a temporary file first: an interrupted download leaves no partial file under the name. */
async function writeWhole(content: Readable, path: string, mode: number): Promise<void> {
  const part = `${path}.ramet-part`;
  try {
    await pipeline(content, createWriteStream(part, { mode: 0o600 }));
    await chmod(part, mode);
    await rename(part, path);
  } catch (error) {
    await rm(part, { force: true });
    throw RametError.from(error, `Cannot write ${path}`);
  }
}

function noFile(path: string): RametError {
  return new RametError("InvalidArgument", `Cannot copy ${path}: it is not a regular file`, {
    hint: "Copy a directory as an archive with: ramet sandbox exec NAME -- tar c DIRECTORY",
  });
}

/** Copies a local directory to `to` in a sandbox, or into it if it is an existing directory or ends with a slash. */
async function uploadDirectory(io: Io, guest: GuestClient, from: string, to: string): Promise<void> {
  const target = (await isGuestDirectory(guest, to)) ? posix.join(to, basename(from)) : to;
  // The owner in the sandbox is the user who runs tar there.
  const archive = create({ cwd: from, portable: true }, ["."]) as unknown as Readable;
  const script = 'mkdir -p -- "$1" && exec tar -x -o -f - -C "$1"';
  const input = new PassThrough();
  const packed = pipeline(archive, input).then(
    () => undefined,
    (error: unknown) => RametError.from(error, `Cannot read ${from}`),
  );
  await runTar(io, guest, { stdin: input, script, directory: target, what: `copying ${from} to ${target}` });
  const problem = await packed;
  if (problem !== undefined) throw problem;
}

/**
 * Copies a directory of a sandbox to the local `to`, or into it if it exists. A sandbox is not trusted: nothing is written
 * outside of the target, neither by a name nor through a link; owners, set-uid bits and devices are not taken over.
 */
async function downloadDirectory(io: Io, guest: GuestClient, from: string, to: string): Promise<void> {
  const exists = await stat(to).then(
    (found) => found.isDirectory(),
    () => false,
  );
  const target = exists ? join(to, posix.basename(from)) : to;
  await mkdir(target, { recursive: true });
  const received = new PassThrough();
  const unpack = extract({
    cwd: target,
    strict: false,
    preserveOwner: false,
    filter: isPlain,
    onReadEntry: withoutSetUid,
  });
  const unpacked = pipeline(received, unpack as unknown as NodeJS.WritableStream).then(
    () => undefined,
    (error: unknown) => RametError.from(error, `Cannot write ${target}`),
  );
  try {
    const script = 'exec tar -c -f - -C "$1" .';
    await runTar(io, guest, { stdout: received, script, directory: from, what: `copying ${from} to ${target}` });
  } finally {
    received.end();
  }
  const problem = await unpacked;
  if (problem !== undefined) throw problem;
}

/** Files, directories and links. node-tar checks the targets of links. */
function isPlain(_path: string, entry: object): boolean {
  const type = "type" in entry ? entry.type : undefined;
  return typeof type !== "string" || !/Device|FIFO/.test(type);
}

function withoutSetUid(entry: { mode?: number | undefined }): void {
  if (entry.mode !== undefined) entry.mode &= 0o777;
}

interface TarRun {
  stdin?: Readable;
  stdout?: PassThrough;
  script: string;
  directory: string;
  what: string;
}

/** @throws RametError if tar fails in the sandbox, or the image has none */
async function runTar(io: Io, guest: GuestClient, { stdin, stdout, script, directory, what }: TarRun): Promise<void> {
  const errors: Buffer[] = [];
  const stderr = new Writable({
    write: (chunk: Buffer, _encoding, done) => {
      if (errors.length < mostErrors) errors.push(chunk);
      done();
    },
  });
  const streams = defined({ stderr, stdin, stdout });
  const command = ["sh", "-c", script, "sh", directory] as const;
  const request = { command: [...command] as [string, ...string[]], stdin: stdin !== undefined, terminal: undefined };
  const exitCode = await runCommand({ ...io, ...streams }, guest, request);
  if (exitCode === 0) return;
  const why = Buffer.concat(errors).toString().trim().split("\n").at(-1) ?? "";
  if (exitCode === commandNotFound || /tar: not found/.test(why)) {
    throw new RametError("NotFound", `${what} failed: the sandbox's image has no tar`, {
      hint: "Copy single files, or use an image with tar",
    });
  }
  throw new RametError("Internal", `${what} failed: ${why === "" ? `tar exited with code ${exitCode}` : why}`);
}

const commandNotFound = 127;
const mostErrors = 16;

async function isGuestDirectory(guest: GuestClient, path: string): Promise<boolean> {
  if (path.endsWith("/")) return true;
  try {
    return (await guest.stat(path)).type === "directory";
  } catch (error) {
    if (RametError.from(error).code === "NotFound") return false;
    throw error;
  }
}
