import { watch } from "node:fs";
import { open } from "node:fs/promises";
import type { ServerResponse } from "node:http";
import * as z from "zod";
import { RametError } from "../../base/errors.ts";

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
  response.write(limitBytes === undefined ? first : first.slice(0, limitBytes));
  if (!follow) {
    await file.close();
    response.end();
    return;
  }
  const sendNext = async (): Promise<void> => void response.write(format(await nextLines()));
  let sending = Promise.resolve();
  const watcher = watch(path, () => {
    sending = sending.then(sendNext).catch(() => void response.destroy());
  });
  response.on("close", () => {
    watcher.close();
    void sending.then(() => file.close());
  });
}

async function readToEnd(file: Awaited<ReturnType<typeof open>>): Promise<string> {
  const chunks: Buffer[] = [];
  for (;;) {
    const { bytesRead, buffer } = await file.read(Buffer.alloc(65536), 0, 65536, null);
    if (bytesRead === 0) return Buffer.concat(chunks).toString("utf8");
    chunks.push(buffer.subarray(0, bytesRead));
  }
}
