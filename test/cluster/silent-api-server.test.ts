import { afterAll, beforeAll, expect, it } from "vitest";
import { ApiLine } from "./api-line.ts";
import { openCluster, type Cluster } from "./controllers-cluster.ts";
import { StandInNode } from "./controllers-stand-in-node.ts";

/** Tests the controllers, with stand-in cells, on a real API server that gets no requests for a while. */
let cluster: Cluster;
let line: ApiLine;

beforeAll(async () => {
  cluster = await openCluster({
    startNode: new StandInNode().start,
    lineTo: async (server) => (line = await ApiLine.open(server)),
    requestTimeoutMilliseconds: 1_000,
  });
  await cluster.namespace("t");
});
afterAll(() => cluster.close());

const apiVersion = "agents.kruise.io/v1alpha1";
const at = (name: string) => ({ name, namespace: "t" });

it("takes a checkpoint once the API server responds, although its start could not be recorded before", async () => {
  const template = { spec: { containers: [{ name: "main", image: "python", command: ["sleep", "1000"] }] } };
  await cluster.create({ apiVersion, kind: "Sandbox", metadata: at("a"), spec: { template } });
  await cluster.sandbox("t/a", ({ status }) => status?.phase === "Running");
  line.hold();
  await cluster.create({ apiVersion, kind: "Checkpoint", metadata: at("c"), spec: { sandboxName: "a" } });
  let unanswered = 0;
  const count = (): number => {
    const own = cluster.requests().filter(({ resource }) => resource.plural === "checkpoints");
    return (unanswered += own.filter(({ httpStatus }) => httpStatus === undefined).length);
  };
  // A client tries a request five times.
  await expect.poll(count, { timeout: 60_000 }).toBeGreaterThan(5);
  line.release();
  const { status } = await cluster.checkpoint("t/c", ({ status: now }) => now?.completionTime !== undefined);
  expect(status?.message).toBeUndefined();
  expect(status?.phase).toBe("Succeeded");
});
