import { setTimeout as sleep } from "node:timers/promises";

export const workloadPort = 8000;

/**
 * A Python process with `MIB` of incompressible memory that responds to HTTP requests with their number. `/gap/start` starts
 * a thread that ticks each millisecond, and `/gap/stop` returns the longest time between two ticks in milliseconds: how long
 * the program was paused. A plain TCPServer, because Python's HTTPServer looks up its own name when it binds.
 */
const program = `
import http.server, os, socketserver, sys, threading, time
memory = bytearray(os.urandom(1 << 20)) * int(sys.argv[1])
count = 0
ticking = False
longest = 0.0
def tick():
    global longest
    last = time.monotonic()
    while ticking:
        time.sleep(0.001)
        now = time.monotonic()
        longest = max(longest, now - last)
        last = now
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        global count, ticking, longest
        count += 1
        body = str(count)
        if self.path == "/gap/start":
            longest, ticking = 0.0, True
            threading.Thread(target=tick, daemon=True).start()
        if self.path == "/gap/stop":
            ticking, body = False, str(longest * 1000)
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

export function workloadCommand(sizeMiB: number): string[] {
  return ["python3", "-c", program, `${sizeMiB}`];
}

/** Sends requests until the program responds. The pause between two attempts is the resolution of the measurement. */
export async function firstAnswer(ip: string, path = "/"): Promise<string> {
  const deadline = Date.now() + 60_000;
  for (;;) {
    try {
      const answer = await fetch(`http://${ip}:${workloadPort}${path}`, { signal: AbortSignal.timeout(10_000) });
      return await answer.text();
    } catch (error) {
      if (Date.now() > deadline) throw error;
      await sleep(1);
    }
  }
}
