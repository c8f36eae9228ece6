import { setTimeout as sleep } from "node:timers/promises";

export const counterPort = 8000;

/**
 * Answers how often it was asked: the count is in its memory and nowhere else. Asked for `/end` it ends with exit code 3, and
 * asked for `/keep` it keeps the connection open. A plain TCPServer, because Python's HTTPServer asks DNS for its own name when it
 * binds.
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

/** Asks the counter until it answers. */
export async function countAt(ip: string): Promise<number> {
  for (;;) {
    const answer = await fetch(`http://${ip}:${counterPort}/`).catch(() => undefined);
    if (answer !== undefined) return Number(await answer.text());
    await sleep(10);
  }
}
