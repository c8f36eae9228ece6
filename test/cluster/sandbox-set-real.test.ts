import { afterAll, beforeAll, expect, it } from "vitest";
import type { Sandbox } from "../../src/api/kinds/sandbox.ts";
import { openCluster, type Cluster } from "./controllers-cluster.ts";
import { realNode } from "./controllers-real-node.ts";
import { SetWorld } from "./sandbox-set-world.ts";

/** Tests sets of real cells with real gVisor on the local node: ready sandboxes respond, and killed ones are replaced. */
let cluster: Cluster;
let pool: SetWorld;

beforeAll(async () => {
  cluster = await openCluster({ startNode: realNode() });
  pool = await SetWorld.open(cluster, "real");
});
afterAll(() => cluster.close());

/** Responds with its start argument and the number of requests so far, which only its memory holds. `/die` ends it. */
const server = `
import http.server, os, sys
class H(http.server.BaseHTTPRequestHandler):
    count = 0
    def do_GET(self):
        if self.path == "/die": os._exit(3)
        H.count += 1
        body = f"{sys.argv[1]} {H.count}".encode()
        self.send_response(200); self.send_header("content-length", str(len(body))); self.end_headers()
        self.wfile.write(body)
    def log_message(self, *args): pass
http.server.ThreadingHTTPServer(("", 8000), H).serve_forever()
`;
const template = (word: string) => ({
  spec: {
    terminationGracePeriodSeconds: 1,
    containers: [
      { name: "main", image: "python", command: ["python3", "-c", server, word], ports: [{ containerPort: 8000 }] },
    ],
  },
});
const patient = { timeout: 60_000, interval: 20 };

async function request({ status }: Sandbox, path = "/"): Promise<string | undefined> {
  const response = await fetch(`http://${status?.sandboxIp ?? ""}:8000${path}`).catch(() => undefined);
  return response?.text();
}
const responses = () => Promise.all(pool.available.map((sandbox) => request(sandbox)));

it("fills a set of two, replaces a killed sandbox, scales down, and rolls", async () => {
  await pool.create({ replicas: 2, template: template("first") });
  await pool.settled(2);
  await expect.poll(responses, patient).toEqual([expect.stringMatching(/^first/), expect.stringMatching(/^first/)]);

  const [victim] = pool.available;
  await request(victim!, "/die");
  await expect.poll(() => pool.names, patient).not.toContain(victim!.metadata.name);
  await expect.poll(() => pool.names.length, patient).toBe(2);
  await pool.settled(2);

  await pool.scale(1);
  await pool.settled(1);
  await expect.poll(() => pool.names.length, patient).toBe(1);

  await pool.patch({ template: template("second"), updateStrategy: { maxUnavailable: 0 } });
  const watched = pool.watchNumbers();
  await expect.poll(responses, patient).toEqual([expect.stringMatching(/^second/)]);
  expect(watched().fewestAvailable).toBe(1);
  await pool.settled(1);
});

it("fills a set from a checkpoint, and each sandbox has the memory of the source", async () => {
  const source = () => cluster.seen.sandboxes.store.get("real/source");
  await pool.create({ template: template("warm") }, "Sandbox", "source");
  await expect.poll(() => source()?.status?.phase, patient).toBe("Running");
  await expect.poll(() => request(source()!), patient).toBe("warm 1");
  expect(await request(source()!)).toBe("warm 2");
  await pool.create({ sandboxName: "source" }, "Checkpoint", "warm");
  const { status } = await cluster.checkpoint("real/warm", (one) => one.status?.phase === "Succeeded");
  const annotations = { "ramet.dev/restore-from": status?.checkpointId ?? "" };
  await pool.patch({ template: { ...template("warm"), metadata: { annotations } }, replicas: 2 });
  await pool.settled(2);
  await expect.poll(() => pool.available.length, patient).toBe(2);
  for (const clone of pool.available) expect(clone.status?.ramet?.restoredFrom).toBe(status?.checkpointId);
  expect((await responses()).sort()).toEqual(["warm 3", "warm 3"]);

  // Without a spec in the template, the sandboxes use the checkpoint's own template.
  await pool.patch({ template: { metadata: { annotations, labels: { alone: "yes" } }, spec: null } });
  await pool.settled(2);
  await expect.poll(() => pool.available.length, patient).toBe(2);
  expect(await responses()).toEqual(["warm 3", "warm 3"]);
});
