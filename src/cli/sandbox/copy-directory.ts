import { mkdir, stat } from "node:fs/promises";
import { basename, join, posix } from "node:path";
import { PassThrough, type Readable, Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { create, extract } from "tar";
import { RametError } from "../../base/errors.ts";
import type { GuestClient } from "../../cell/client/guest-client.ts";
import type { Io } from "../io.ts";
import { runCommand } from "./run-command.ts";

/** Copies a local directory to `to` in a sandbox, or into it if it is an existing directory or ends with a slash. */
export async function uploadDirectory(io: Io, guest: GuestClient, from: string, to: string): Promise<void> {
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
export async function downloadDirectory(io: Io, guest: GuestClient, from: string, to: string): Promise<void> {
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
  const streams = { stderr, ...(stdin && { stdin }), ...(stdout && { stdout }) };
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
