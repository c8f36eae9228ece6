import { afterAll, beforeAll, expect, it } from "vitest";
import type { Sandbox } from "../../src/api/kinds/sandbox.ts";
import { labels } from "../../src/api/names/labels.ts";
import type { S3Location } from "../../src/api/store/store-address.ts";
import { delay, systemClock } from "../../src/base/clock.ts";
import { disruptionCheckpointName } from "../../src/controllers/cluster/pause-checkpoint.ts";
import { findCondition } from "../../src/kube/conditions.ts";
import { s3Bucket } from "../../src/store/objects/s3/s3-bucket.ts";
import { objectStore } from "../../src/store/objects/store.ts";
import { startFaultProxy, type FaultProxy } from "../setup/fault-proxy.ts";
import { startS3Server, type S3Server } from "../setup/s3-server.ts";
import { openCluster, type Cluster } from "./controllers-cluster.ts";
import { realNode } from "./controllers-real-node.ts";
import { count } from "./counter.ts";
import { Evictions } from "./evictions.ts";

/** Tests with real cells, real gVisor and a real S3 server that evictions lose nothing silently while the store is away or slow. */
let server: S3Server;
let proxy: FaultProxy;
let cluster: Cluster;
const evictions = new Evictions(() => cluster);

beforeAll(async () => {
  server = await startS3Server();
  proxy = await startFaultProxy(server.endpoint);
  // The environment of the controllers, which run in this process.
  Object.assign(process.env, server.environment);
  const bucket = s3Bucket((await server.makePlace(proxy.endpoint)) as S3Location);
  cluster = await openCluster({ startNode: realNode(), store: objectStore({ bucket }), allApis: true });
  await cluster.namespace("t");
});
afterAll(async () => {
  await cluster.close();
  await proxy.stop();
  await server.stop();
});

const disruptionOf = ({ status }: Sandbox) => status?.ramet?.disruption;
/** A capture that has failed, and is taken again while the cell holds the end of the Pod. */
const untilRepeated = (name: string) =>
  cluster.sandbox(`t/${name}`, ({ status }) =>
    (findCondition(status?.conditions, "SandboxPaused")?.message ?? "").includes("is repeated"),
  );

it("continues an evicted sandbox with its memory if the store comes back before its end", async () => {
  const before = await evictions.create("back");
  expect(await count(cluster, "back")).toBe(1);
  await server.kill();
  await evictions.evict("back", 45);
  await untilRepeated("back");
  // It responds in the meantime.
  expect(await count(cluster, "back")).toBe(2);
  // Each attempt waits for the removal of the one before, which needs the store too: its pauses must not grow with the outage.
  const failed = `t/${disruptionCheckpointName(before)}`;
  await cluster.checkpoint(failed, ({ metadata }) => metadata.deletionTimestamp !== undefined);
  await delay(systemClock, 20_000);
  await server.restart();
  const after = await evictions.continued(before);
  expect(disruptionOf(after)).toMatchObject({ cause: "Evicted", outcome: "Migrated" });
  expect(await count(cluster, "back")).toBe(3);
});

it("reports the loss of a sandbox if the store stays away until its end, and keeps the last checkpoint of another", async () => {
  const [saved] = await Promise.all([evictions.create("saved"), evictions.create("unsaved")]);
  expect(await count(cluster, "saved")).toBe(1);
  const owner = { apiVersion: saved.apiVersion, kind: "Sandbox", name: "saved", uid: saved.metadata.uid };
  await cluster.create({
    apiVersion: "agents.kruise.io/v1alpha1",
    kind: "Checkpoint",
    metadata: {
      name: "saved",
      namespace: "t",
      labels: { [labels.purpose]: "automatic" },
      ownerReferences: [{ ...owner, controller: true }],
    },
    spec: { sandboxName: "saved" },
  });
  await cluster.checkpoint("t/saved", ({ status }) => status?.phase === "Succeeded");
  expect(await count(cluster, "saved")).toBe(2);
  await server.kill();
  await Promise.all([evictions.evict("saved", 14), evictions.evict("unsaved", 14)]);

  const { status } = await cluster.sandbox("t/unsaved", (now) => now.status?.phase === "Failed");
  expect(status?.ramet?.disruption).toMatchObject({ cause: "Evicted", outcome: "Lost" });
  expect(findCondition(status?.conditions, "Ready")).toMatchObject({ reason: "SandboxLost" });
  expect(status?.message).toMatch(/its state could not be saved: .*the store did not respond/);

  // The store that it needs to continue is away too.
  const isWaiting = ({ status: now }: Sandbox) =>
    findCondition(now?.conditions, "Ready")?.reason === "StoreUnavailable";
  const waiting = await cluster.sandbox("t/saved", isWaiting);
  expect(waiting.status?.phase).toBe("Resuming");
  expect(disruptionOf(waiting)).toMatchObject({
    cause: "Evicted",
    checkpoint: "saved",
    problem: { code: "StoreUnavailable", cause: expect.stringContaining("could not be saved") as string },
  });
  await server.restart();
  await evictions.continued(saved);
  // What was counted after the checkpoint is lost.
  expect(await count(cluster, "saved")).toBe(2);
});

it("continues an evicted sandbox while the store is slow", async () => {
  const before = await evictions.create("slow");
  expect(await count(cluster, "slow")).toBe(1);
  proxy.bytesPerSecond = 2 ** 21;
  await evictions.evict("slow");
  const after = await evictions.continued(before).finally(() => {
    proxy.bytesPerSecond = Infinity;
  });
  expect(disruptionOf(after)).toMatchObject({ cause: "Evicted", outcome: "Migrated" });
  expect(await count(cluster, "slow")).toBe(2);
});

it("reports the loss of a sandbox whose capture a slow store does not get before its end", async () => {
  await evictions.create("late");
  proxy.bytesPerSecond = 2 ** 14;
  try {
    await evictions.evict("late", 8);
    const { status } = await cluster.sandbox("t/late", (now) => now.status?.phase === "Failed");
    expect(status?.ramet?.disruption).toMatchObject({ cause: "Evicted", outcome: "Lost" });
  } finally {
    proxy.bytesPerSecond = Infinity;
  }
});
