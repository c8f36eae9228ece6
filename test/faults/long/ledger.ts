import { setTimeout as sleep } from "node:timers/promises";
import * as z from "zod";
import { workloadPort } from "../../bench/workload.ts";

/**
 * A program that counts its requests in memory and in a file, and reports on each request whether both are whole: the number
 * of the request, its process id, a random token from its start, the lines of the file, and whether its memory is unchanged.
 */
const program = `
import hashlib, http.server, json, os, socketserver, threading
memory = bytearray(os.urandom(1 << 20)) * 4
digest = hashlib.sha1(memory).hexdigest()
token = os.urandom(8).hex()
count = 0
lock = threading.Lock()
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        global count
        with lock:
            count += 1
            with open("/var/ledger", "a") as file: file.write(f"{token} {count}\\n")
            lines = open("/var/ledger").read().splitlines()
            whole = lines == [f"{token} {number + 1}" for number in range(count)]
            same = hashlib.sha1(memory).hexdigest() == digest
            body = json.dumps({"count": count, "pid": os.getpid(), "token": token, "files": whole, "memory": same})
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.send_header("connection", "close")
        self.end_headers()
        self.wfile.write(body.encode())
    def log_message(self, *_): pass
class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
Server(("0.0.0.0", ${workloadPort}), Handler).serve_forever()
`;

export const ledgerCommand = ["python3", "-c", program];

const Entry = z.object({
  count: z.number(),
  pid: z.number(),
  token: z.string(),
  files: z.boolean(),
  memory: z.boolean(),
});
/** The program's report on one request. */
export type Entry = z.infer<typeof Entry>;

/** Sends one request. @throws Error without a response within 20 s */
export async function nextEntry(ip: string): Promise<Entry> {
  const response = await fetch(`http://${ip}:${workloadPort}/`, { signal: AbortSignal.timeout(20_000) });
  return Entry.parse(await response.json());
}

/** Sends requests until a new sandbox's program listens. */
export async function firstEntry(ip: string): Promise<Entry> {
  for (const deadline = Date.now() + 60_000; ;) {
    try {
      return await nextEntry(ip);
    } catch (error) {
      if (Date.now() > deadline) throw error;
      await sleep(50);
    }
  }
}

/** Describes how an entry differs from the one that must follow `before`; undefined if it is right. */
export function mismatch(before: Entry, now: Entry): string | undefined {
  const expected: Entry = { ...before, count: before.count + 1, files: true, memory: true };
  const wrong = (Object.keys(expected) as (keyof Entry)[]).filter((key) => expected[key] !== now[key]);
  if (wrong.length === 0) return undefined;
  return wrong.map((key) => `${key} is ${now[key]} instead of ${expected[key]}`).join(", ");
}
