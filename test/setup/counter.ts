import { setTimeout as sleep } from "node:timers/promises";

export const counterPort = 8000;

/**
 * Responds with the number of its requests, which it keeps only in memory. `/end` ends it with exit code 3, and `/keep`
 * keeps the connection open. Uses a plain TCPServer, because Python's HTTPServer queries DNS for its own name when it binds.
 */
export const counterScript = `
import http.server, os, socketserver
class Handler(http.server.BaseHTTPRequestHandler):
    count = 0
    def do_GET(self):
        if self.path == "/end": os._exit(3)
        Handler.count += 1
        body = str(Handler.count).encode()
        self.send_response(200); self.send_header("content-length", str(len(body))); self.end_headers()
        self.wfile.write(body)
        self.close_connection = self.path != "/keep"
    def log_message(self, *args): pass
class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True
Server(("", ${counterPort}), Handler).serve_forever()
`;

/** Sends requests until the counter responds, and returns the count. */
export async function countAt(ip: string): Promise<number> {
  for (;;) {
    const answer = await fetch(`http://${ip}:${counterPort}/`).catch(() => undefined);
    if (answer !== undefined) return Number(await answer.text());
    await sleep(10);
  }
}
