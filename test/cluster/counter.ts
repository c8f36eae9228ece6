import type { Cluster } from "./controllers-cluster.ts";

/** Counts its own requests: the count is in its memory and nowhere else. */
export const counterScript = `
import http.server
class H(http.server.BaseHTTPRequestHandler):
    count = 0
    def do_GET(self):
        H.count += 1
        body = str(H.count).encode()
        self.send_response(200); self.send_header("content-length", str(len(body))); self.end_headers()
        self.wfile.write(body)
    def log_message(self, *args): pass
http.server.ThreadingHTTPServer(("", 8000), H).serve_forever()
`;

/** A Pod template that runs it. */
export const counterTemplate = {
  spec: {
    terminationGracePeriodSeconds: 1,
    containers: [
      { name: "main", image: "python", command: ["python3", "-c", counterScript], ports: [{ containerPort: 8000 }] },
    ],
  },
};

/** The next count of a sandbox of namespace `t`, as soon as it runs and answers. */
export async function count(cluster: Cluster, name: string): Promise<number> {
  for (;;) {
    const { status } = await cluster.seen.sandboxes.resource.get({ namespace: "t", name });
    if (status?.phase === "Running") {
      const answer = await fetch(`http://${status.sandboxIp ?? ""}:8000/`).catch(() => undefined);
      if (answer?.ok === true) return Number(await answer.text());
    }
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
