/** The port of the program below. The template does not declare it. */
export const programPort = 9000;
/** The program listens on these ports only on 127.0.0.1 and on ::1. */
export const loopbackPorts = { ipv4: 9004, ipv6: 9006 };

/**
 * A server for tests of the gateway, written with Python's standard library only:
 * - `/headers` returns the request headers, `/cookies` sets two cookies, `POST` returns the digest of the body.
 * - `/events` streams an event, and a second one after a request for `/next`. `/endless` streams until the client disconnects.
 * - `/disconnected` returns how many clients of `/endless` have disconnected.
 * - `/metadata` returns "denied" if the program cannot connect to a metadata service.
 * - On 127.0.0.1 and ::1, each request returns the address, also in a clone.
 * - `/broken` closes the connection in the middle of a response. `/ws` is a WebSocket that echoes short messages.
 */
export const program = `
import base64, hashlib, http.server, json, socket, socketserver, threading
proceed, disconnected = threading.Event(), []
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def answer(self, body, headers=(), status=200):
        self.send_response(status)
        for name, value in headers: self.send_header(name, value)
        self.send_header("content-length", str(len(body))); self.end_headers()
        self.wfile.write(body)
    def chunk(self, data):
        self.wfile.write(b"%x\\r\\n%s\\r\\n" % (len(data), data)); self.wfile.flush()
    def do_POST(self):
        digest = hashlib.sha256()
        if "content-length" in self.headers:
            count = int(self.headers["content-length"])
            while count > 0:
                part = self.rfile.read(min(65536, count)); count -= len(part); digest.update(part)
        else:
            while (size := int(self.rfile.readline(), 16)) > 0:
                digest.update(self.rfile.read(size)); self.rfile.readline()
            self.rfile.readline()
        self.answer(digest.hexdigest().encode())
    def do_GET(self):
        if self.path == "/headers": self.answer(json.dumps(self.headers.items()).encode())
        elif self.path == "/cookies": self.answer(b"", [("set-cookie", "a=1"), ("set-cookie", "b=2"), ("connection", "x-own"), ("x-own", "1")])
        elif self.path == "/next": proceed.set(); self.answer(b"")
        elif self.path == "/disconnected": self.answer(str(len(disconnected)).encode())
        elif self.path == "/metadata":
            try:
                socket.create_connection(("169.254.169.254", 80), timeout=20).recv(1)
                self.answer(b"connected")
            except OSError: self.answer(b"denied")
        elif self.path == "/events":
            self.send_response(200); self.send_header("transfer-encoding", "chunked"); self.end_headers()
            self.chunk(b"one")
            proceed.wait(60); proceed.clear()
            self.chunk(b"two"); self.chunk(b"")
        elif self.path == "/endless":
            self.send_response(200); self.send_header("transfer-encoding", "chunked"); self.end_headers()
            try:
                while True: self.chunk(b"x" * 65536)
            except OSError: disconnected.append(1)
            self.close_connection = True
        elif self.path == "/broken":
            self.send_response(200); self.send_header("content-length", "100"); self.end_headers()
            self.wfile.write(b"part"); self.close_connection = True
        elif self.path == "/ws":
            if self.headers.get("upgrade") != "websocket": return self.answer(b"no websocket", status=426)
            if self.headers.get("x-refuse"): return self.answer(b"refused", status=418)
            key = self.headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
            accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
            self.wfile.write(("HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\nSec-WebSocket-Accept: %s\\r\\n\\r\\n" % accept).encode())
            self.close_connection = True
            while True:
                first, second = self.rfile.read(2)
                mask = self.rfile.read(4)
                data = bytes(byte ^ mask[at % 4] for at, byte in enumerate(self.rfile.read(second & 127)))
                self.wfile.write(bytes([first, len(data)]) + data)
                if first & 15 == 8: return
        else: self.answer(b"not here", status=404)
    def log_message(self, *args): pass
class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True
    # More than a test opens at a time: gVisor resets what a full queue cannot take.
    request_queue_size = 128
class Local(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(self.server.server_address[0].encode())
    def log_message(self, *args): pass
class Server6(Server): address_family = socket.AF_INET6
for local in Server(("127.0.0.1", ${loopbackPorts.ipv4}), Local), Server6(("::1", ${loopbackPorts.ipv6}), Local):
    threading.Thread(target=local.serve_forever, daemon=True).start()
Server(("", ${programPort}), Handler).serve_forever()
`;

/** A Pod template that runs the program. */
export const programTemplate = {
  spec: {
    terminationGracePeriodSeconds: 1,
    containers: [{ name: "main", image: "python", command: ["python3", "-c", program] }],
  },
};
