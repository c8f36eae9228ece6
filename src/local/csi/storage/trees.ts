import { spawn } from "node:child_process";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import * as z from "zod";
import { canceled, onAbort } from "../../../base/clock.ts";

/** Copies and removes directories that sandboxes wrote to. */
export interface Trees {
  /**
   * Copies a directory to a new one, with owners, modes, times, extended attributes, links and holes. Shares the blocks of files
   * where the file system can. The copy is on the disk when this returns.
   * @throws an error with the `code` of the system call that failed
   */
  copy(from: string, to: string): Promise<Copied>;
  /** A missing directory is no error. */
  remove(path: string): Promise<void>;
}

const Copied = z.object({
  entries: z.number(),
  sharedBytes: z.number(),
  copiedBytes: z.number(),
  /** Entries that were removed meanwhile. */
  vanished: z.number(),
});
export type Copied = z.infer<typeof Copied>;

/**
 * Uses `ramet-link tree`, which follows no path of a sandbox, and which sees holes and attributes that Node does not.
 * @param signal ends running copies
 */
export function treesBy(link: string, signal: AbortSignal): Trees {
  return {
    copy: async (from, to) => Copied.parse(await run(link, ["copy", from, to], signal)),
    remove: async (path) => {
      await run(link, ["remove", path], signal);
    },
  };
}

const Failure = z.object({ message: z.string(), errno: z.string().optional() });

async function run(link: string, args: readonly string[], signal: AbortSignal): Promise<unknown> {
  signal.throwIfAborted();
  // It ends with its standard input, and so with this process.
  const child = spawn(link, ["tree", ...args], { stdio: ["pipe", "pipe", "inherit"] });
  child.stdin.on("error", () => undefined);
  const stop = onAbort(signal, () => child.kill("SIGKILL"));
  try {
    const [[code], printed] = await Promise.all([
      once(child, "close") as Promise<[number | null]>,
      text(child.stdout).catch(() => ""),
    ]);
    if (code === 0) return JSON.parse(printed);
    if (code === null) throw canceled(`The ${args[0] ?? ""} of a volume`, signal);
    const { message, errno } = Failure.parse(JSON.parse(printed));
    throw Object.assign(new Error(message), errno !== undefined && { code: errno });
  } finally {
    stop();
  }
}
