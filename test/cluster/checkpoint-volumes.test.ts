import { afterAll, beforeAll, expect, it } from "vitest";
import { findCondition } from "../../src/kube/conditions.ts";
import { openCluster, type Cluster } from "./controllers-cluster.ts";
import { StandInNode } from "./controllers-stand-in-node.ts";

const apiVersion = "agents.kruise.io/v1alpha1";
const claimSpec = { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1Gi" } } };
const containers = [{ name: "main", image: "counter" }];
const volumes = [
  { name: "shared", persistentVolumeClaim: { claimName: "team-data" } },
  { name: "cache", ephemeral: { volumeClaimTemplate: { spec: claimSpec } } },
];

/** The real API server and controllers over stand-in cells, which mount no volume: only what is reported is tested. */
let cluster: Cluster;
beforeAll(async () => {
  cluster = await openCluster({ startNode: new StandInNode().start });
  await cluster.namespace("t");
});
afterAll(() => cluster.close());

async function capture(name: string, sandboxSpec: object) {
  const metadata = { name, namespace: "t" };
  await cluster.create({ apiVersion, kind: "Sandbox", metadata, spec: sandboxSpec });
  await cluster.sandbox(`t/${name}`, ({ status }) => status?.phase === "Running");
  await cluster.create({ apiVersion, kind: "Checkpoint", metadata, spec: { podName: name } });
  const { status } = await cluster.checkpoint(`t/${name}`, (now) => now.status?.completionTime !== undefined);
  expect(status?.phase).toBe("Succeeded");
  return status;
}

it("names the claims of all three kinds of volumes, and is not atomic as a whole", async () => {
  const volumeClaimTemplates = [{ metadata: { name: "home" }, spec: claimSpec }];
  const status = await capture("a", { template: { spec: { containers, volumes } }, volumeClaimTemplates });
  const condition = findCondition(status?.conditions, "VolumesCaptured");
  expect(condition).toMatchObject({ status: "False", reason: "NotRequested" });
  for (const claim of ["team-data", "a-cache", "home-a"]) expect(condition?.message).toContain(claim);
  expect(status?.ramet?.consistency).toBeUndefined();
  expect(status?.ramet?.parts?.map(({ consistency }) => consistency)).toEqual(["crash"]);
});

it("has no such condition without claims", async () => {
  const status = await capture("b", { template: { spec: { containers } } });
  expect(findCondition(status?.conditions, "VolumesCaptured")).toBeUndefined();
  expect(status?.ramet?.consistency).toBe("crash");
});
