import { Transform, type Readable } from "node:stream";
import { posix } from "node:path";
import * as z from "zod";
import { RametError } from "../../../base/errors.ts";
import type { GuestClient } from "../../../cell/client/guest-client.ts";
import { needs } from "../../keys/needs.ts";
import { zipOf } from "./archive.ts";
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
