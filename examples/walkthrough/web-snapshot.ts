import * as z from "zod";
import { namedSnapshotKind } from "../../src/api/kinds/named-snapshot.ts";
import type { Sandbox } from "../../src/api/kinds/sandbox.ts";
import { sandboxSetKind } from "../../src/api/kinds/sandbox-set.ts";
import { sandboxTemplateKind } from "../../src/api/kinds/sandbox-template.ts";

/** A server whose start is slow with a real model. Here it only generates a number that identifies the process. */
const program = `
import http.server, json, os, socketserver, uuid
memory = {"started": str(uuid.uuid4()), "model": open("/srv/model").read().strip(), "word": ""}
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path.startswith("/learn/"): memory["word"] = self.path.removeprefix("/learn/")
        body = json.dumps({**memory, "modelFile": os.path.exists("/srv/model")}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_): pass
class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address, daemon_threads = True, True
Server(("", 8000), Handler).serve_forever()
`;

export const templateManifest = {
  apiVersion: sandboxTemplateKind.apiVersion,
  kind: "SandboxTemplate",
  metadata: { name: "web-base", namespace: "default" },
  spec: {
    template: {
      spec: {
        terminationGracePeriodSeconds: 1,
        containers: [
          { name: "main", image: "python", command: ["sleep", "infinity"], ports: [{ containerPort: 8000 }] },
        ],
      },
    },
  },
};

/** One step starts a server. A later step sends it a word and removes the file that it has read. */
export function snapshotManifest(word: string) {
  const learn = `import urllib.request as web; web.urlopen("http://127.0.0.1:8000/learn/${word}").read()`;
  return {
    apiVersion: namedSnapshotKind.apiVersion,
    kind: "NamedSnapshot",
    metadata: { name: "web", namespace: "default" },
    spec: {
      from: { template: { name: "web-base" } },
      recipe: [
        { copy: { path: "/srv/serve.py", content: program } },
        { run: "cat /proc/sys/kernel/random/uuid > /srv/model" },
        { start: "exec python3 /srv/serve.py" },
        { waitFor: { port: 8000 } },
        { run: `python3 -c '${learn}' && rm /srv/model` },
      ],
    },
  };
}

/** With `maxUnavailable: 0`, a roll keeps the requested number of ready sandboxes. */
export function setManifest(name: string, replicas: number) {
  return {
    apiVersion: sandboxSetKind.apiVersion,
    kind: "SandboxSet",
    metadata: { name, namespace: "default" },
    spec: {
      replicas,
      updateStrategy: { maxUnavailable: 0 },
      template: { metadata: { annotations: { "ramet.dev/restore-from": "web" } } },
    },
  };
}

const Answer = z.object({ started: z.string(), model: z.string(), word: z.string(), modelFile: z.boolean() });
export type Answer = z.infer<typeof Answer>;

/** Returns the state of the server in the sandbox. */
export async function ask({ metadata, status }: Sandbox, signal: AbortSignal): Promise<Answer> {
  if (status?.sandboxIp === undefined) throw new Error(`${metadata.name} has no address`);
  const response = await fetch(`http://${status.sandboxIp}:8000/`, { signal });
  return Answer.parse(await response.json());
}
