import { afterAll, beforeAll, expect, it } from "vitest";
import { ownerAnnotation } from "../../src/api/names/labels.ts";
import { planStack } from "../../provider/handlers/snapshot-stack/stack-findings.ts";
import type { StackRequest } from "../../provider/handlers/snapshot-stack/stack-parts.ts";
import { crdNames } from "../../src/preflight/snapshot-objects.ts";
import type { SnapshotStackArgs } from "../../components/snapshot-stack/args.ts";
import type { EbsSnapshotOptions } from "../../components/snapshot-stack/snapshot-class.ts";
import { coreResources } from "../../src/kube/resource-ref.ts";
import { microTime } from "../../src/kube/lease.ts";
import { refs, StackWorld } from "./stack-world.ts";

/**
 * Tests the generic stack: the objects that it declares or leaves to other managers, and the errors that it reports. The tests
 * depend on their order.
 */
let world: StackWorld;
const hostpath = "hostpath.csi.k8s.io";
const generic: SnapshotStackArgs = { cloud: "generic", classes: [{ driver: hostpath }] };
const owner = "organization/program/test/stack";
const classes = ["hostpath-csi-k8s-io-checkpoint-retain", "hostpath-csi-k8s-io-clone-delete"];

beforeAll(async () => {
  world = await StackWorld.open();
});

afterAll(async () => {
  await world.close();
});

it("previews a stack on an unreachable cluster", async () => {
  const preview = await world.previewUnreachable(generic);
  expect(preview.text).toMatch(/Cannot read the cluster, so the preview assumes that it is empty/);
  expect(preview).toMatchObject({ succeeded: true, outputs: { classNames: classes } });
  expect(names(preview.steps, "CustomResourceDefinitionPatch")).toEqual(crdNames.core);
  expect(names(preview.steps, "Deployment")).toEqual(["snapshot-controller"]);
  expect(JSON.stringify(preview.outputs["facts"])).not.toMatch(/server/);
});

it("declares nothing if a class uses a missing driver", async () => {
  const up = await world.up(generic);
  expect(up.succeeded).toBe(false);
  expect(up.text).toMatch(
    /^Cannot declare the snapshot stack for generic: .*driver hostpath\.csi\.k8s\.io, which is not installed.*Install the driver first/ms,
  );
  expect((await world.observe()).crds).toEqual([]);
});

it("declares CRDs, controller and classes, and reports the result", async () => {
  await world.driver(hostpath);
  const up = await world.up(generic);
  expect(up.text).not.toMatch(/error/);
  const facts = { server: "v1.36.3", drivers: [hostpath], cloud: { name: "generic" } };
  expect(up).toMatchObject({ succeeded: true, outputs: { facts } });
  expect(up.outputs["facts"]).toMatchObject({
    crds: crdNames.core.map((name) => ({ name, served: ["v1"], manager: `the Pulumi resource ${owner}` })),
    controllers: [{ namespacedName: "kube-system/snapshot-controller", isAvailable: false }],
    classes: classes.map((name) => ({ name, driver: hostpath, isDefault: false })),
    // Pods do not run here.
    findings: [
      { problem: expect.stringMatching(/no Pod of the Deployment kube-system\/snapshot-controller/) as string },
    ],
  });
  const controllers = (await world.observe()).controllers.map(({ arguments: given }) => given);
  expect(controllers).toEqual([expect.arrayContaining(["--feature-gates=CSIVolumeGroupSnapshot=false"])]);
  const again = await world.up(generic);
  expect(again.steps.filter(({ operation }) => operation !== "same")).toEqual([]);
  // Under another name it would mistake its own objects for another stack's, and Pulumi would delete them.
  const renamed = planStack(
    requestFor({ owners: ["organization/program/test/renamed"], classes: [] }),
    await world.observe(),
  );
  expect(renamed.findings.filter(({ level }) => level === "error")).toMatchObject([
    { message: expect.stringContaining(`belongs to the Pulumi resource ${owner} (Deployment`) as string },
  ]);
});

it("validates snapshots with upstream's CRDs", async () => {
  const source = { persistentVolumeClaimName: "data", volumeSnapshotContentName: "content" };
  const made = world.client.resource(refs.snapshots).create(snapshot("two-sources", source));
  await expect(made).rejects.toThrow(/exactly one of volumeSnapshotContentName and persistentVolumeClaimName/);
  await world.client.resource(refs.snapshots).create(snapshot("kept", { persistentVolumeClaimName: "data" }));
});

it("keeps CRDs and snapshots when it is destroyed, and declares them again", async () => {
  expect((await world.destroy()).succeeded).toBe(true);
  const seen = await world.observe();
  expect(seen.crds.map(({ name }) => name)).toEqual(crdNames.core);
  expect(seen).toMatchObject({ controllers: [], classes: [] });
  expect(await world.client.resource(refs.snapshots).get({ namespace: "default", name: "kept" })).toBeDefined();
  expect(planStack(requestFor({}), seen)).toMatchObject({ crds: true, controller: true, findings: [] });
});

it("leaves objects to their manager, and names the manager of objects that it would have to own", async () => {
  const [first = ""] = crdNames.core;
  const release = { "meta.helm.sh/release-name": "snapshots", "meta.helm.sh/release-namespace": "storage" };
  await world.mark(coreResources.crds, { name: first }, { [ownerAnnotation]: null, ...release });
  const seen = await world.observe();
  expect(planStack(requestFor({}), seen)).toMatchObject({ crds: false, controller: true, findings: [] });
  const refused = planStack(requestFor({ mode: "install" }), seen).findings;
  expect(refused).toMatchObject([
    { message: expect.stringMatching(/belongs to the Helm release storage\/snapshots/) as string, level: "error" },
  ]);
  await world.mark(coreResources.crds, { name: first }, { [ownerAnnotation]: "somebody/else/prod/snapshots" });
  const { findings } = planStack(requestFor({ mode: "install" }), await world.observe());
  expect(findings[0]?.message).toMatch(/belongs to the Pulumi resource somebody\/else\/prod\/snapshots/);
  await world.mark(coreResources.crds, { name: first }, { [ownerAnnotation]: owner });
});

it("lists all objects that a removed controller left", async () => {
  const metadata = { name: "snapshot-controller", namespace: "kube-system" };
  const account = { group: "", version: "v1", plural: "serviceaccounts", kind: "ServiceAccount", namespaced: true };
  const role = { group: "rbac.authorization.k8s.io", version: "v1", plural: "clusterroles", kind: "ClusterRole" };
  await world.apply(account, { apiVersion: "v1", kind: "ServiceAccount", metadata });
  const name = "snapshot-controller-runner";
  const roles = { ...role, namespaced: false };
  await world.apply(roles, { apiVersion: `${role.group}/v1`, kind: role.kind, metadata: { name }, rules: [] });
  const { findings } = planStack(requestFor({}), await world.observe());
  expect(findings).toMatchObject([
    {
      action: `Delete them first: kubectl delete --namespace kube-system serviceaccount/snapshot-controller clusterrole/${name}`,
      level: "error",
    },
  ]);
  await world.client.resource(account).delete(metadata);
  await world.client.resource(roles).delete({ name });
});

it("detects a controller by its lease while it is renewed", async () => {
  const at = { namespace: "kube-system", name: "snapshot-controller-leader" };
  const lease = (renewTime: Date) => ({
    apiVersion: "coordination.k8s.io/v1",
    kind: "Lease",
    metadata: at,
    spec: { holderIdentity: "pod-1", leaseDurationSeconds: 15, renewTime: microTime(renewTime) },
  });
  await world.apply(coreResources.leases, lease(new Date()));
  const { findings } = planStack(requestFor({}), await world.observe());
  expect(findings).toMatchObject([
    { message: expect.stringMatching(/holds the lease.*\(pod-1\)/) as string, level: "error" },
  ]);
  await world.apply(coreResources.leases, lease(new Date(Date.now() - 3_600_000)));
  expect(planStack(requestFor({}), await world.observe()).findings).toEqual([]);
});

it("rejects an upgrade that would break", async () => {
  const group = "snapshot.storage.k8s.io";
  const webhooks = [
    {
      name: `validation-webhook.${group}`,
      sideEffects: "None",
      admissionReviewVersions: ["v1"],
      failurePolicy: "Ignore",
      clientConfig: { url: "https://127.0.0.1:9/" },
      rules: [{ apiGroups: [group], apiVersions: ["v1"], operations: ["CREATE"], resources: ["volumesnapshots"] }],
    },
  ];
  const webhook = { kind: "ValidatingWebhookConfiguration", metadata: { name: `validation-webhook.${group}` } };
  await world.apply(refs.webhooks, { apiVersion: "admissionregistration.k8s.io/v1", ...webhook, webhooks });
  const labels = { app: "snapshot-controller" };
  const containers = [
    { name: "snapshot-controller", image: "snapshot-controller:v6.3.3", args: ["--leader-election=true"] },
  ];
  const deployment = {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: {
      name: "snapshot-controller",
      namespace: "kube-system",
      labels,
      annotations: { [ownerAnnotation]: owner },
    },
    spec: { selector: { matchLabels: labels }, template: { metadata: { labels }, spec: { containers } } },
  };
  await world.apply(refs.deployments, deployment);
  const { findings } = planStack(requestFor({}), await world.observe());
  expect(findings.filter(({ level }) => level === "error").map(({ action }) => action)).toEqual([
    expect.stringMatching(/kubectl delete validatingwebhookconfiguration validation-webhook/),
    expect.stringMatching(/kubectl delete deployment --namespace kube-system snapshot-controller/),
  ]);
  const others = { ...webhooks[0], name: "snapshots.backup.example" };
  const kyverno = { ...webhook, metadata: { name: "backup" }, webhooks: [others] };
  await world.apply(refs.webhooks, { apiVersion: "admissionregistration.k8s.io/v1", ...kyverno });
  expect((await world.observe()).webhooks).toEqual([
    { name: "backup", isUpstreams: false },
    { name: webhook.metadata.name, isUpstreams: true },
  ]);
  await world.client.resource(refs.webhooks).delete({ name: "backup" });
  await world.client.resource(refs.deployments).delete({ namespace: "kube-system", name: "snapshot-controller" });
  await world.client.resource(refs.webhooks).delete({ name: webhook.metadata.name });
});

it("warns about two default classes of a driver, and does not create a second one", async () => {
  const annotations = { "snapshot.storage.kubernetes.io/is-default-class": "true" };
  const mine = { name: classes[0] ?? "", driver: hostpath, isDefault: true };
  for (const name of ["fast", "slow"]) {
    const manifest = { apiVersion: "snapshot.storage.k8s.io/v1", kind: "VolumeSnapshotClass" };
    await world.apply(refs.classes, {
      ...manifest,
      metadata: { name, annotations },
      driver: hostpath,
      deletionPolicy: "Delete",
    });
  }
  const there = planStack(requestFor({}), await world.observe()).findings;
  expect(there).toMatchObject([
    { message: expect.stringMatching(/2 default classes \(fast, slow\)/) as string, level: "warning" },
  ]);
  await world.client.resource(refs.classes).delete({ name: "slow" });
  expect(planStack(requestFor({}), await world.observe()).findings).toEqual([]);
  const asked = planStack(requestFor({ classes: [mine] }), await world.observe()).findings;
  expect(asked).toMatchObject([{ message: expect.stringMatching(/\(fast, hostpath-csi/) as string, level: "error" }]);
});

it("lists snapshots that violate the rules of its CRDs", async () => {
  const name = "volumesnapshots.snapshot.storage.k8s.io";
  const schema = { openAPIV3Schema: { type: "object", "x-kubernetes-preserve-unknown-fields": true } };
  const versions = [{ name: "v1", served: true, storage: true, schema }];
  // As before v8.
  await world.client.resource(coreResources.crds).mergePatch({ name }, { spec: { versions } });
  const broken = snapshot("broken", {});
  await expect
    .poll(
      () =>
        world.client
          .resource(refs.snapshots)
          .create(broken)
          .then(() => "made", String),
      { timeout: 10_000 },
    )
    .toBe("made");
  const seen = await world.observe();
  expect(seen.breakingRules).toEqual(["volumesnapshot/default/broken"]);
  expect(planStack(requestFor({}), seen).findings.find(({ level }) => level === "error")).toMatchObject({
    message: expect.stringMatching(/could no longer be changed: volumesnapshot\/default\/broken$/) as string,
  });
});

it("rejects an unknown option of a driver in a preview", async () => {
  const ebs = { encrypted: "true" } as EbsSnapshotOptions;
  const preview = await world.preview({ cloud: "generic", classes: [{ driver: "ebs.csi.aws.com", ebs }] });
  expect(preview.succeeded).toBe(false);
  expect(preview.text).toMatch(
    /^Invalid snapshot options for the driver ebs.* Unrecognized key: "encrypted". Supported options: tags/m,
  );
});

it("rejects a cluster of another cloud in a preview", async () => {
  const labels = { "kubernetes.azure.com/cluster": "nodes" };
  await world.apply(coreResources.nodes, { apiVersion: "v1", kind: "Node", metadata: { name: "one", labels } });
  const preview = await world.preview({ cloud: "local" });
  expect(preview.succeeded).toBe(false);
  expect(preview.text).toMatch(
    /cloud is "local", but the cluster belongs to aks \(a node has the label kubernetes.azure.com\/cluster\)/,
  );
});

function requestFor(request: Partial<StackRequest>): StackRequest {
  const plain = classes.map((name) => ({ name, driver: hostpath, isDefault: false }));
  const controller = { namespace: "kube-system", name: "snapshot-controller" };
  const asked = { cloud: "generic", mode: "auto", groupSnapshots: false, addons: [], driversMayCome: false } as const;
  return { ...asked, owners: [owner], controller, classes: plain, ...request };
}

function snapshot(name: string, source: Record<string, string>) {
  return {
    apiVersion: "snapshot.storage.k8s.io/v1",
    kind: "VolumeSnapshot",
    metadata: { name, namespace: "default" },
    spec: { source },
  };
}

function names(steps: { type: string; name: string }[], kind: string): string[] {
  return steps
    .filter(({ type }) => type.endsWith(`:${kind}`))
    .map(({ name }) => name.replace(`stack-${kind.replace(/Patch$/, "")}/`, ""))
    .sort();
}
