import { watch } from "node:fs";
import { open } from "node:fs/promises";
import type { ServerResponse } from "node:http";
import * as z from "zod";
import { RametError } from "../../base/errors.ts";
import { untilWritable } from "../../base/sockets.ts";

const Query = z.object({
  follow: z.stringbool().default(false),
  timestamps: z.stringbool().default(false),
  tailLines: z.coerce.number().int().min(0).optional(),
  sinceTime: z.iso.datetime({ offset: true }).optional(),
  limitBytes: z.coerce.number().int().min(1).optional(),
});

/** Sends the entrypoint's log, filtered by the options of `kubectl logs`. With `follow`, until the client disconnects. */
export async function sendLog(path: string, query: URLSearchParams, response: ServerResponse): Promise<void> {
  const parsed = Query.safeParse(Object.fromEntries(query));
  if (!parsed.success) throw new RametError("InvalidArgument", `logs: invalid query: ${z.prettifyError(parsed.error)}`);
  const { follow, timestamps, tailLines, sinceTime, limitBytes } = parsed.data;
  const file = await open(path, "r");
  const format = (lines: string[]): string =>
    lines.map((line) => `${timestamps ? line.replace(/ \S+ F /, " ") : line.replace(/^\S+ \S+ F /, "")}\n`).join("");
  let rest = "";
  const nextLines = async (): Promise<string[]> => {
    const lines = (rest + (await readToEnd(file))).split("\n");
    rest = lines.pop() ?? "";
    return sinceTime === undefined ? lines : lines.filter((line) => line >= sinceTime);
  };
  response.writeHead(200, { "content-type": "text/plain; charset=utf-8" });
  const lines = await nextLines();
  const first = format(tailLines === undefined ? lines : lines.slice(lines.length - Math.min(tailLines, lines.length)));
  await send(response, limitBytes === undefined ? first : first.slice(0, limitBytes));
  if (!follow || response.destroyed) {
    await file.close();
    response.end();
    return;
  }
  // A client that reads slowly holds back the next read of the file, not lines in the cell's memory.
  let change = Promise.withResolvers<unknown>();
  const watcher = watch(path, () => {
    change.resolve(undefined);
  });
  response.once("close", () => {
    change.resolve(undefined);
  });
  try {
    while (!response.closed) {
      change = Promise.withResolvers();
      await send(response, format(await nextLines()));
      await change.promise;
    }
  } finally {
    watcher.close();
    await file.close();
  }
}

/** Resolves when the client has room for more or is gone. */
async function send(response: ServerResponse, text: string): Promise<void> {
  if (!response.destroyed && !response.write(text)) await untilWritable(response);
}

async function readToEnd(file: Awaited<ReturnType<typeof open>>): Promise<string> {
  const chunks: Buffer[] = [];
  for (;;) {
    const { bytesRead, buffer } = await file.read(Buffer.alloc(65536), 0, 65536, null);
    if (bytesRead === 0) return Buffer.concat(chunks).toString("utf8");
    chunks.push(buffer.subarray(0, bytesRead));
  }
}
