import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { renderCrds } from "../../src/api/kinds/crd.ts";
import { sandboxResources } from "../../src/controllers/cluster/resources.ts";
import { clusterRights, systemRights } from "../../src/install/controller-rights.ts";
import { roles } from "../../src/install/rights.ts";
import { explicitConnection } from "../../src/kube/connection.ts";
import { KubeClient, type RequestRecord } from "../../src/kube/kube-client.ts";
import { findOtherControllers } from "../../src/kube/other-controllers.ts";
import { coreResources, type ResourceRef } from "../../src/kube/resource-ref.ts";
import { openKruiseCrds } from "../setup/openkruise-crds.ts";
import { serviceAccounts, tokenOf } from "../setup/service-accounts.ts";
import { BesideWorld } from "./beside-world.ts";

const world = new BesideWorld();
const openKruise = ["sandbox-system", "f57b9a68.kruise.io"] as const;

beforeAll(async () => {
  await world.open();
  await world.namespace("sandbox-system");
  await world.namespace("agent-sandbox-system");
  await world.namespace("team");
});
afterAll(() => world.close());

afterEach(async () => {
  await world.stopControllers();
  await world.removeLease(...openKruise);
});

describe("controllers that start", () => {
  it("refuse beside the live lease of OpenKruise Agents, name it, and write nothing", async () => {
    await world.lease(...openKruise);
    const { ready } = world.start({ installCrds: true });
    await expect(ready).rejects.toMatchObject({
      code: "OtherController",
      message: expect.stringMatching(
        /the Lease sandbox-system\/f57b9a68\.kruise\.io, held by manager_1 \(OpenKruise/,
      ) as string,
      hint: expect.stringContaining("--beside=openkruise") as string,
    });
    const { items } = await world.client.resource(coreResources.crds).list();
    expect(items).toEqual([]);
  });

  it("refuse beside a Deployment that will take the lease, unless it is scaled to zero", async () => {
    const at = { name: "ack-agent-sandbox-controller", namespace: "team" };
    await world.create(coreResources.deployments, deployment(at));
    await expect(world.start().ready).rejects.toThrow(/the Deployment team\/ack-agent-sandbox-controller/);
    await world.client.resource(coreResources.deployments).mergePatch(at, { spec: { replicas: 0 } });
    const { others } = await findOtherControllers(world.client);
    expect(others).toEqual([]);
    await world.client.resource(coreResources.deployments).delete(at);
  });

  it("refuse beside CRDs that another project made, and do not change them", async () => {
    const crds = world.client.resource(coreResources.crds);
    const theirs = openKruiseCrds.find(({ metadata }) => metadata.name === "checkpoints.agents.kruise.io")!;
    const { metadata: before } = await crds.create(theirs);
    await expect(world.start({ installCrds: true }).ready).rejects.toThrow(
      /the CustomResourceDefinition checkpoints\.agents\.kruise\.io, which Ramet did not make/,
    );
    const after = await crds.get(before);
    expect((await crds.list()).items).toHaveLength(1);
    await crds.delete(before);
    expect([after.metadata.generation, after.metadata.annotations]).toEqual([before.generation, before.annotations]);
    await expect.poll(() => crds.find(before)).toBeUndefined();
  });

  it("work beside an expired lease, and beside agent-sandbox, which has other kinds", async () => {
    await world.lease(...openKruise, new Date(Date.now() - 120_000));
    await world.lease("agent-sandbox-system", "a3317529.agent-sandbox.x-k8s.io");
    const at = { name: "agent-sandbox-controller", namespace: "agent-sandbox-system" };
    await world.create(coreResources.deployments, deployment(at));
    await world.start({ installCrds: true }).ready;
    const { items } = await world.client.resource(coreResources.crds).list();
    expect(items.map(({ metadata }) => metadata.name).sort()).toEqual(
      renderCrds()
        .map(({ metadata }) => metadata.name)
        .sort(),
    );
  });

  it("work with CRDs without Ramet's mark that have every field, and do not change them", async () => {
    const crds = world.client.resource(coreResources.crds);
    const [first] = renderCrds();
    const unmarked = await crds.mergePatch(first!.metadata, { metadata: { annotations: { "ramet.dev/crd": null } } });
    await world.start({ installCrds: true }).ready;
    const { metadata } = await crds.get(first!.metadata);
    expect(metadata.annotations?.["ramet.dev/crd"]).toBeUndefined();
    expect(metadata.generation).toBe(unmarked.metadata.generation);
  });
});

describe("another controller that appears later", () => {
  it("stops the controllers, which report it, write nothing, and work again when it is gone", async () => {
    const controllers = world.start({ installCrds: true });
    await controllers.ready;
    expect(await controllers.metrics()).toContain("ramet_other_controllers 0");
    await world.lease(...openKruise);
    await expect.poll(() => controllers.yields).toHaveLength(1);
    expect(controllers.yields[0]).toMatch(/have stopped: another controller owns .*f57b9a68/);
    expect(await controllers.metrics()).toContain("ramet_other_controllers 1");
    const events = world.client.resource(coreResources.events);
    await expect
      .poll(async () => (await events.list()).items)
      .toContainEqual(expect.objectContaining({ reason: "OtherController" }));

    const sets = world.client.resource(sandboxResources.sets);
    const set = await sets.create({
      apiVersion: "agents.kruise.io/v1alpha1",
      kind: "SandboxSet",
      metadata: { name: "pool", namespace: "team" },
      spec: { replicas: 1, template: { spec: { containers: [{ name: "main", image: "example/a" }] } } },
    });
    controllers.requests();
    const seen: RequestRecord[] = [];
    // Each time they look for others, they read two or more leases.
    const countReads = (): number => {
      seen.push(...controllers.requests());
      return seen.filter(({ resource }) => resource.plural === "leases").length;
    };
    await expect.poll(countReads).toBeGreaterThan(10);
    expect(seen.filter(({ verb }) => verb !== "get" && verb !== "list")).toEqual([]);
    expect((await sets.get(set.metadata)).metadata.resourceVersion).toBe(set.metadata.resourceVersion);

    await world.removeLease(...openKruise);
    await expect.poll(() => controllers.starts()).toBe(2);
    await expect
      .poll(async () => (await sets.get(set.metadata)).metadata.resourceVersion)
      .not.toBe(set.metadata.resourceVersion);
    expect(await controllers.metrics()).toContain("ramet_other_controllers 0");
  });
});

describe("the rights of the controllers", () => {
  it("allow them to look for other controllers in every namespace, and to read no other lease or Deployment", async () => {
    await world.lease(...openKruise);
    await world.namespace("ramet-system").catch(() => undefined);
    const account = { name: "ramet-controller", namespace: "ramet-system" };
    await world.create(serviceAccounts, { apiVersion: "v1", kind: "ServiceAccount", metadata: account });
    for (const role of roles(account, { everywhere: clusterRights, inSystem: systemRights })) {
      await world.create(rbac(role.kind), role);
    }
    const { ca } = world.plane;
    const token = await tokenOf(world.client, account);
    const client = new KubeClient(explicitConnection({ server: world.plane.server, ca, token }));
    try {
      // An API server knows a right some moments after it was written.
      await expect.poll(async () => (await findOtherControllers(client)).unread).toEqual([]);
      const { others } = await findOtherControllers(client);
      expect(others).toEqual([expect.objectContaining({ sign: expect.stringContaining("f57b9a68") as string })]);
      await expect(client.resource(coreResources.leases).list()).rejects.toMatchObject({ code: "Forbidden" });
      await expect(client.resource(coreResources.deployments).list()).rejects.toMatchObject({ code: "Forbidden" });
    } finally {
      await client.close();
    }
  });
});

function deployment({ name, namespace }: { name: string; namespace: string }) {
  const labels = { app: name };
  const spec = { containers: [{ name: "manager", image: "example/manager" }] };
  return {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: { name, namespace },
    spec: { selector: { matchLabels: labels }, template: { metadata: { labels }, spec } },
  };
}

function rbac(kind: string): ResourceRef {
  const plural = `${kind.toLowerCase()}s`;
  const namespaced = !kind.startsWith("Cluster");
  return { group: "rbac.authorization.k8s.io", version: "v1", plural, kind, namespaced };
}
