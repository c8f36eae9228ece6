import { Registry } from "prom-client";
import { expect, it } from "vitest";
import { Sandbox, type SandboxStatus } from "../../api/kinds/sandbox.ts";
import { SandboxSet } from "../../api/kinds/sandbox-set.ts";
import { explicitConnection } from "../../kube/connection.ts";
import { KubeClient } from "../../kube/kube-client.ts";
import { silentLog } from "../../base/log.ts";
import { createCache } from "../cluster/cache.ts";
import { createInformers } from "../cluster/resources.ts";
import { setMetrics } from "./metrics.ts";

const apiVersion = "agents.kruise.io/v1alpha1";
const meta = (name: string) => ({
  name,
  namespace: "n",
  uid: `uid-${name}`,
  resourceVersion: "1",
  creationTimestamp: "2030-01-01T00:00:00Z",
});
const owner = { apiVersion, kind: "SandboxSet", name: "pool", uid: "uid-pool", controller: true };
const sandbox = (name: string, status: SandboxStatus) =>
  Sandbox.parse({
    apiVersion,
    kind: "Sandbox",
    spec: {},
    status,
    metadata: { ...meta(name), ownerReferences: [owner] },
  });

it("reports the current size of each pool, and counts created and deleted sandboxes", async () => {
  const client = new KubeClient(explicitConnection({ server: "https://127.0.0.1:1" }));
  const informers = createInformers(client, silentLog);
  const registry = new Registry();
  const metrics = setMetrics(registry, informers, createCache(informers));
  const spec = { replicas: 3, template: {} };
  informers.sets.store.put(SandboxSet.parse({ apiVersion, kind: "SandboxSet", metadata: meta("pool"), spec }));
  const condition = { type: "Ready", status: "True" as const, reason: "PodReady", message: "" };
  const conditions = [{ ...condition, lastTransitionTime: "2030-01-01T00:00:00Z" }];
  informers.sandboxes.store.put(sandbox("a", { phase: "Running", conditions }));
  informers.sandboxes.store.put(sandbox("b", {}));
  metrics.created({ namespace: "n", name: "pool" });
  metrics.deleted({ namespace: "n", name: "pool" }, "dead");

  const text = await registry.metrics();
  const of = (name: string) =>
    new RegExp(`^ramet_sandboxset_${name}{namespace="n",name="pool".*} (\\d+)$`, "m").exec(text)?.[1];
  expect(of("desired_replicas")).toBe("3");
  expect(of("replicas")).toBe("2");
  expect(of("available_replicas")).toBe("1");
  expect(of("creating_replicas")).toBe("1");
  expect(of("sandboxes_created_total")).toBe("1");
  expect(text).toContain('ramet_sandboxset_sandboxes_deleted_total{namespace="n",name="pool",why="dead"} 1');

  metrics.close();
  expect(await registry.metrics()).not.toContain("ramet_sandboxset");
  await client.close();
});
