import * as z from "zod";
import { RametError } from "../../../base/errors.ts";
import type { GuestClient } from "../../../cell/client/guest-client.ts";
import { needs } from "../../keys/needs.ts";
import { SandboxName, type ToolParts, addTool, runningSandbox } from "./tool.ts";

const Path = z.string().min(1).max(4096).describe("The path of the file; relative to the user's home directory");
const User = z.string().max(64).optional().describe("The user of the sandbox's image who reads or owns the file");
const mostReadBytes = 1024 * 1024;
const mostWrittenCharacters = 2 * 1024 * 1024;
const mostEntries = 1000;

/** Reads, writes and lists files. */
export function fileTools(parts: ToolParts): void {
  const enter = async (text: string, user: string | undefined, signal: AbortSignal): Promise<GuestClient> =>
    parts.actor.guest(await runningSandbox(parts, text, signal), { user, signal });
  addTool(parts, {
    name: "read_file",
    description: "Read a file of a sandbox. Content that is not UTF-8 is returned in base64.",
    input: {
      sandbox: SandboxName,
      path: Path,
      offset: z.number().int().min(0).default(0).describe("The first byte to read"),
      limit: z.number().int().min(4).max(mostReadBytes).default(65_536).describe("The most bytes to read"),
      user: User,
    },
    hints: { readOnlyHint: true },
    needs: needs.enter,
    call: async ({ sandbox, path, offset, limit, user }, signal) => {
      const guest = await enter(sandbox, user, signal);
      const { data, isWhole } = await readRange(guest, path, { offset, limit, signal });
      const { content, encoding, bytes } = encoded(data, isWhole);
      const more = isWhole && bytes === data.length ? {} : { nextOffset: offset + bytes };
      const text = "nextOffset" in more ? `${content}\n[more: read on at offset ${more.nextOffset}]` : content;
      return { json: { content, encoding, bytes, ...more }, text };
    },
  });
  addTool(parts, {
    name: "write_file",
    description: "Write a file in a sandbox, and create its parent directories. An existing file is replaced.",
    input: {
      sandbox: SandboxName,
      path: Path,
      content: z.string().max(mostWrittenCharacters),
      encoding: z.enum(["utf-8", "base64"]).default("utf-8"),
      user: User,
    },
    hints: { readOnlyHint: false, destructiveHint: true, idempotentHint: true },
    needs: needs.enter,
    call: async ({ sandbox, path, content, encoding, user }, signal) => {
      const data = encoding === "base64" ? fromBase64(content) : Buffer.from(content);
      await (await enter(sandbox, user, signal)).writeFile(path, data, signal);
      return { json: { path, bytes: data.length } };
    },
  });
  addTool(parts, {
    name: "list_files",
    description: "List a directory of a sandbox.",
    input: { sandbox: SandboxName, path: Path, depth: z.number().int().min(1).max(5).default(1), user: User },
    hints: { readOnlyHint: true },
    needs: needs.enter,
    call: async ({ sandbox, path, depth, user }, signal) => {
      const all = await (await enter(sandbox, user, signal)).list(path, depth);
      const entries = all.slice(0, mostEntries).map(({ path: at, type, size }) => ({ path: at, type, size }));
      return { json: { entries, ...(all.length > mostEntries && { of: all.length }) } };
    },
  });
}

interface Range {
  offset: number;
  limit: number;
  signal: AbortSignal;
}

/** @returns isWhole: whether the file ends with the data */
async function readRange(
  guest: GuestClient,
  path: string,
  { offset, limit, signal }: Range,
): Promise<{ data: Buffer; isWhole: boolean }> {
  const file = await guest.readFile(path, signal);
  const parts: Buffer[] = [];
  let position = 0;
  let size = 0;
  try {
    for await (const chunk of file as AsyncIterable<Buffer>) {
      const part = chunk.subarray(Math.max(0, offset - position));
      position += chunk.length;
      // An empty part would keep the memory of its chunk.
      if (part.length > 0) parts.push(part);
      size += part.length;
      if (size > limit) return { data: Buffer.concat(parts).subarray(0, limit), isWhole: false };
    }
  } finally {
    file.destroy();
  }
  return { data: Buffer.concat(parts), isWhole: true };
}

/** A character that the limit has cut is left for the next call. */
function encoded(data: Buffer, isWhole: boolean): { content: string; encoding: "utf-8" | "base64"; bytes: number } {
  try {
    const content = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(data, { stream: !isWhole });
    return { content, encoding: "utf-8", bytes: Buffer.byteLength(content) };
  } catch {
    return { content: data.toString("base64"), encoding: "base64", bytes: data.length };
  }
}

/** Node ignores what is not base64. @throws RametError `InvalidArgument` */
function fromBase64(text: string): Buffer {
  const digits = text.replace(/\s/g, "");
  if (/^[A-Za-z0-9+/]*={0,2}$/.test(digits)) return Buffer.from(digits, "base64");
  throw new RametError("InvalidArgument", "content is not base64", { hint: "Set encoding to utf-8 for a text" });
}
