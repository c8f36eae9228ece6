import { counterPort } from "./counter.ts";

/**
 * A program in Python that requests the URL in the path of a request, and answers with the status and the body. With `context=kept`
 * in the URL it uses a TLS context that it has loaded once.
 */
export const requestingProgram = `
import http.server, socketserver, ssl, urllib.parse, urllib.request
kept = None
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        global kept
        url = urllib.parse.unquote(self.path[1:])
        try:
            if "context=kept" in url:
                kept = kept or ssl.create_default_context()
                context = kept
            else: context = ssl.create_default_context() if url.startswith("https") else None
            with urllib.request.urlopen(url, timeout=20, context=context) as answer:
                body = f"{answer.status} {answer.read().decode()}"
        except Exception as error: body = f"failed: {error}"
        self.send_response(200); self.end_headers(); self.wfile.write(body.encode())
    def log_message(self, *args): pass
class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True
Server(("", ${counterPort}), Handler).serve_forever()
`;
