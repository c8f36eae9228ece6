import { createReadStream, createWriteStream } from "node:fs";
import { rename, rm, stat } from "node:fs/promises";
import { basename, join } from "node:path";
import { posix } from "node:path";
import type { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { RametError, whyUnreadable } from "../../base/errors.ts";
import type { GuestClient } from "../../cell/client/guest-client.ts";
import { withCluster, type ClusterOptions } from "../cluster/cluster.ts";
import type { AccessFlags } from "../cluster/gateway-credentials.ts";
import { withGuest } from "../cluster/guest-access.ts";
import { exitCodes } from "../exit-codes.ts";
import { writeAll, type Io } from "../io.ts";
import { downloadDirectory, uploadDirectory } from "./copy-directory.ts";

export interface CopyOptions extends ClusterOptions, AccessFlags {
  /** A local file, `NAME:/path`, or `-`. */
  from: string;
  to: string;
  user?: string;
}

/** `ramet sandbox cp`: copies a file or a directory into or out of a sandbox. */
export async function copyFile(io: Io, options: CopyOptions): Promise<number> {
  const from = inSandbox(options.from);
  const to = inSandbox(options.to);
  const inside = from ?? to;
  if (inside === undefined || (from !== undefined && to !== undefined)) {
    throw new RametError(
      "InvalidArgument",
      "Cannot copy: one of the two paths must be in a sandbox, and the other on this machine",
      {
        hint: "Write a path in a sandbox as NAME:/path",
      },
    );
  }
  return withCluster(io, options, async (cluster) => {
    const access = { sandbox: inside.sandbox, flags: options, user: options.user };
    await withGuest(io, cluster, access, (guest) =>
      from === undefined ? upload(io, guest, options.from, inside.path) : download(io, guest, from.path, options.to),
    );
    return exitCodes.ok;
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
}

async function download(io: Io, guest: GuestClient, from: string, to: string): Promise<void> {
  const { type } = await guest.stat(from).catch((error: unknown) => {
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
  await writeWhole(content, isDirectory ? join(to, posix.basename(from)) : to);
}

/** Writes to a temporary file first: an interrupted download leaves no partial file under the name. */
async function writeWhole(content: Readable, path: string): Promise<void> {
  const part = `${path}.ramet-part`;
  try {
    await pipeline(content, createWriteStream(part));
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
