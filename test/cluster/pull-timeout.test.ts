import { afterAll, beforeAll, expect, it } from "vitest";
import { apiVersion } from "../../src/api/schema/kind.ts";
import { findCondition } from "../../src/kube/conditions.ts";
import { type Cluster, openCluster } from "./controllers-cluster.ts";
import { startUnpullingNode, words } from "./unpulling-node.ts";

const namespace = "unpulled";

const template = { spec: { containers: [{ name: "main", image: "nosuch:9", command: ["sleep", "infinity"] }] } };

let cluster: Cluster;
beforeAll(async () => {
  cluster = await openCluster({ startNode: startUnpullingNode, pullTimeoutMilliseconds: 3_000 });
  await cluster.namespace(namespace);
  const metadata = { name: "own", namespace };
  await cluster.create({ apiVersion, kind: "Sandbox", metadata, spec: { template } });
  await cluster.sandbox(`${namespace}/own`, ({ status }) => status?.message?.includes(words) === true);
});
afterAll(() => cluster.close());

it("fails a build after the pull timeout, once, with the registry's words", async () => {
  const metadata = { name: "broken", namespace };
  await cluster.create({ apiVersion, kind: "SandboxTemplate", metadata, spec: { template } });
  await cluster.create({
    apiVersion: "ramet.dev/v1alpha1",
    kind: "NamedSnapshot",
    metadata,
    spec: { from: { template: { name: "broken" } }, recipe: [{ run: "true" }] },
  });
  const failure = () => cluster.seen.snapshots.store.get(`${namespace}/broken`)?.status?.build?.failure;
  await expect.poll(failure, { timeout: 60_000 }).toMatchObject({ reason: "BuilderFailed" });
  expect(failure()?.message).toContain(words);
  expect(cluster.seen.snapshots.store.get(`${namespace}/broken`)?.status?.build?.attempt).toBe(1);
});

it("reports a set whose image cannot be pulled as failing, with the registry's words", async () => {
  await cluster.create({
    apiVersion,
    kind: "SandboxSet",
    metadata: { name: "pool", namespace },
    spec: { replicas: 1, template },
  });
  const ready = () => findCondition(cluster.seen.sets.store.get(`${namespace}/pool`)?.status?.conditions, "Ready");
  await expect.poll(ready, { timeout: 60_000 }).toMatchObject({ status: "False", reason: "StartFailing" });
  expect(ready()?.message).toContain(words);
});

it("lets a user's sandbox wait longer than that, because its image may still be pushed", () => {
  const own = cluster.seen.sandboxes.store.get(`${namespace}/own`);
  expect(own?.status).toMatchObject({ phase: "Pending", message: expect.stringContaining(words) as string });
});
