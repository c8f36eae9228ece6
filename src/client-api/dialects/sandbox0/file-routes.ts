import type { Readable } from "node:stream";
import * as z from "zod";
import { defined } from "../../../base/defined.ts";
import { RametError, unlessCode } from "../../../base/errors.ts";
import type { FileEntry } from "../../../cell/client/guest-wire.ts";
import { needs } from "../../keys/needs.ts";
import { envelope, guestFor, route, type Sandbox0Route, socketRoute, success } from "./call.ts";
import { FileQuery, Move, WriteQuery } from "./schemas.ts";

const files = "/api/v1/sandboxes/:id/files";

const FileInfo = z
  .object({
    name: z.string(),
    path: z.string(),
    type: z.enum(["file", "dir", "symlink"]),
    size: z.int(),
    mode: z.string().describe("Octal."),
    mod_time: z.iso.datetime().optional(),
    is_link: z.boolean(),
    link_target: z.string().optional(),
  })
  .meta({ id: "FileInfo" });

/** The largest file that a client can send with its size. A sandbox has limits of its own. */
const mostFileBytes = 5 * 2 ** 30;

export const fileRoutes: readonly Sandbox0Route[] = [
  route("GET", files, {
    summary: "Returns a file.",
    needs: needs.enter,
    query: FileQuery,
    answerType: "application/octet-stream",
    answers: { 200: z.string().describe("The bytes of the file.") },
    handle: async (sandbox0, call) => {
      const { path } = call.query;
      const guest = await guestFor(sandbox0, call);
      const { type } = await guest.stat(path);
      if (type === "directory") throw new RametError("InvalidArgument", `${path} is a directory`);
      void call.reply.type("application/octet-stream");
      return guest.readFile(path, call.signal);
    },
  }),
  route("POST", files, {
    summary: "Creates or replaces a file with its parent directories; with mkdir, creates a directory.",
    needs: needs.enter,
    query: WriteQuery,
    bodyLimitBytes: mostFileBytes,
    isLong: true,
    isStreamed: true,
    bodyType: "application/octet-stream",
    answers: {
      200: envelope(z.object({ written: z.boolean() })),
      201: envelope(z.object({ created: z.boolean() })),
    },
    handle: async (sandbox0, call) => {
      const { path, mkdir = false, recursive = false } = call.query;
      const guest = await guestFor(sandbox0, call);
      if (!mkdir) {
        const content = call.request.body as Readable | undefined;
        await guest.writeFile(path, content ?? Buffer.alloc(0), call.signal);
        return success({ written: true });
      }
      const created = guest.makeDirectory(path);
      await (recursive ? created.catch(unlessCode("AlreadyExists")) : created);
      void call.reply.code(201);
      return success({ created: true });
    },
  }),
  route("DELETE", files, {
    summary: "Deletes a file, or a directory with its content.",
    needs: needs.enter,
    query: FileQuery,
    answers: { 200: envelope(z.object({ deleted: z.boolean() })) },
    handle: async (sandbox0, call) => {
      const guest = await guestFor(sandbox0, call);
      await guest.stat(call.query.path);
      await guest.remove(call.query.path);
      return success({ deleted: true });
    },
  }),
  route("GET", `${files}/stat`, {
    summary: "Describes a file.",
    needs: needs.enter,
    query: FileQuery,
    answers: { 200: envelope(FileInfo) },
    handle: async (sandbox0, call) => success(fileInfo(await (await guestFor(sandbox0, call)).stat(call.query.path))),
  }),
  route("GET", `${files}/list`, {
    summary: "Lists a directory.",
    needs: needs.enter,
    query: FileQuery,
    answers: { 200: envelope(z.object({ entries: z.array(FileInfo) })) },
    handle: async (sandbox0, call) => {
      const entries = await (await guestFor(sandbox0, call)).list(call.query.path);
      return success({ entries: entries.map(fileInfo) });
    },
  }),
  route("POST", `${files}/move`, {
    summary: "Renames a file or a directory.",
    needs: needs.enter,
    body: Move,
    answers: { 200: envelope(z.object({ moved: z.boolean() })) },
    handle: async (sandbox0, call) => {
      await (await guestFor(sandbox0, call)).move(call.body.source, call.body.destination);
      return success({ moved: true });
    },
  }),
  socketRoute(`${files}/watch`, "Reports the changes of directories by a WebSocket."),
];

function fileInfo({ name, path, type, size, mode, modifiedTime, symlinkTarget }: FileEntry): z.infer<typeof FileInfo> {
  const isLink = symlinkTarget !== undefined || type === "symlink";
  return {
    name,
    path,
    type: isLink ? "symlink" : type === "directory" ? "dir" : "file",
    size,
    mode: (mode & 0o7777).toString(8).padStart(4, "0"),
    is_link: isLink,
    ...defined({ mod_time: modifiedTime?.toISOString(), link_target: symlinkTarget }),
  };
}
