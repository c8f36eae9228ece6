import { afterAll, beforeAll, expect, it } from "vitest";
import * as z from "zod";
import { controllerName, systemNamespace } from "../../src/api/names/system-names.ts";
import { microTime } from "../../src/kube/lease.ts";
import { coreResources } from "../../src/kube/resource-ref.ts";
import { upstreamCrds } from "../../components/snapshot-stack/manifests.ts";
import { controllerLease, installedMap } from "../../provider/handlers/snapshot-stack/observed-cluster.ts";
import { crdNames } from "../../src/preflight/snapshot-objects.ts";
import { bucketRegion, identityClientId } from "../engine/cloud-resources.ts";
import type { RunResult } from "../engine/engine.ts";
import { openProgram, type ProgramWorld } from "./program-world.ts";
import { refs, StackWorld } from "./stack-world.ts";

/**
 * The example of each cloud, on an API server that imitates that cloud. Stand-ins replace the clouds and create
 * nothing. The tests share one cluster and depend on their order, so run the whole file.
 */
let world: StackWorld;
const opened: ProgramWorld[] = [];
let onEks: ProgramWorld;

beforeAll(async () => {
  world = await StackWorld.open();
});

afterAll(async () => {
  for (const program of opened) await program.remove();
  await world.close();
});

it("checks ACS and reports missing parts", async () => {
  await look({ "alibabacloud.com/nodepool-id": "np1" });
  const { engine } = await example("acs", {});
  const preview = await engine.preview();
  expect(preview.succeeded).toBe(false);
  expect(preview.text).toMatch(/CRDs Sandbox and Checkpoint .* does not exist.*ACS console/);
});

it("installs the EKS add-ons in order, with a role only for the driver", async () => {
  await look({ "eks.amazonaws.com/nodegroup": "default" });
  onEks = await example("eks", eksOptions);
  const preview = await onEks.engine.preview();
  expect(preview.text).not.toMatch(/error/i);
  expect(preview.succeeded).toBe(true);
  expect(withoutRamet(made(preview)).sort()).toEqual([
    "addon aws-ebs-csi-driver",
    "addon eks-pod-identity-agent",
    "addon snapshot-controller",
    "bucket snapshots-store",
    "bucketlifecycleconfiguration snapshots-store",
    "bucketpublicaccessblock snapshots-store",
    "configmappatch ramet-snapshot-stack",
    "podidentityassociation snapshots-store",
    "readiness cluster",
    "readiness ramet-cluster",
    "role snapshots-ebs-csi",
    "role snapshots-store",
    "rolepolicy snapshots-store",
    "rolepolicyattachment snapshots-ebs-csi",
    "volumesnapshotclass ebs-checkpoint-retain",
    "volumesnapshotclass ebs-clone-delete",
  ]);
  const order = ["configmappatch ramet-snapshot-stack", "addon snapshot-controller", "addon aws-ebs-csi-driver"];
  expect(made(preview).filter((one) => order.includes(one))).toEqual(order);
});

it("continues an interrupted update on EKS and recognizes its own objects", async () => {
  const { engine } = onEks;
  // The stand-in installs no CRDs, so the classes cannot be created.
  const first = await engine.up();
  expect(first.text).toMatch(/error: .*VolumeSnapshotClass/);
  const { namespace, name } = installedMap;
  expect(await world.client.resource(coreResources.configMaps).get({ namespace, name })).toMatchObject({
    data: { addons: "snapshot-controller\neks-pod-identity-agent\naws-ebs-csi-driver" },
  });
  await bringCrds("eks");
  await world.driver("ebs.csi.aws.com");
  const second = await engine.up();
  expect(second.text).not.toMatch(/error/);
  expect(withoutRamet(made(second)).sort()).toEqual([
    "volumesnapshotclass ebs-checkpoint-retain",
    "volumesnapshotclass ebs-clone-delete",
  ]);
  const state = await onEks.state();
  expect(state).toMatch(/arn:aws:iam::aws:policy\/AmazonEBSCSIDriverEKSClusterScopedPolicy/);
  expect(state).toMatch(/"assumeRolePolicy": ".*pods\.eks\.amazonaws\.com/);
  expect(state).toMatch(/"configurationValues": ".*k8sTagClusterId.*prod/);
  expect(state).toMatch(/"policy": ".*s3:PutObject.*s3:ListBucket/);
  // What is current has no end: only a sweep knows what a checkpoint needs.
  expect(storeInputs(state, "aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration")).toMatchObject([
    {
      rules: [
        {
          filter: { prefix: "" },
          abortIncompleteMultipartUpload: { daysAfterInitiation: 7 },
          noncurrentVersionExpiration: { noncurrentDays: 7 },
        },
      ],
    },
  ]);
  expect(state).not.toContain('"expiration"');
  const { account, pod } = await controllers();
  expect(account.metadata.annotations ?? {}).not.toHaveProperty("eks.amazonaws.com/role-arn");
  const address = `s3://agents-checkpoints?region=${bucketRegion}`;
  expect(pod.spec.containers[0]?.args).toEqual(expect.arrayContaining(["--store", address]));
  expect(second.outputs).toMatchObject({ findings: [], classes: ["ebs-checkpoint-retain", "ebs-clone-delete"] });
  const [retain] = (await world.client.resource(refs.classes).list()).items;
  expect(retain).toMatchObject({
    driver: "ebs.csi.aws.com",
    deletionPolicy: "Retain",
    parameters: { tagSpecification_1: "namespace={{ .VolumeSnapshotNamespace }}" },
  });
});

it("previews a stack for a cluster that does not exist yet, and reads the cluster once it exists", async () => {
  const { kubeconfigPath: path } = world.plane;
  const configuration = { "program:kubeconfig": path };
  const program = await openProgram("test/program/programs/new-cluster", { kubeconfig: path, configuration });
  opened.push(program);
  const { engine } = program;
  const preview = await engine.preview();
  expect(preview.text).not.toMatch(/error/);
  expect(made(preview)).toContain("addon aws-ebs-csi-driver");
  expect(JSON.stringify(preview.outputs)).not.toMatch(/ebs\.csi\.aws\.com/);
  const up = await engine.up();
  expect(up.text).not.toMatch(/error/);
  expect(up.outputs).toMatchObject({ drivers: ["ebs.csi.aws.com"] });
  // It has the name of the previous stack, and its classes no longer have parameters.
  const [retain] = (await world.client.resource(refs.classes).list()).items;
  expect(retain).not.toHaveProperty("parameters");
  expect(await program.state()).not.toMatch(/client-key-data|certificate-authority-data/);
});

it("does not overwrite objects of another stack", async () => {
  const { engine } = await example("eks", eksOptions, "other");
  const preview = await engine.preview();
  expect(preview.succeeded).toBe(false);
  expect(preview.text).toMatch(
    /ebs-checkpoint-retain exists and belongs to the Pulumi resource organization\/program\/test\/snapshots/,
  );
});

it("checks GKE and declares classes, a bucket, its permissions, and controllers that use it", async () => {
  await look({ "cloud.google.com/gke-nodepool": "default" });
  const { engine, state } = await example("gke", {
    project: "p",
    location: "us-central1",
    ...images,
  });
  const without = await engine.preview();
  expect(without.text).toMatch(
    /driver pd\.csi\.storage\.gke\.io, which is not installed; installed drivers: ebs\.csi\.aws\.com/,
  );
  await world.driver("pd.csi.storage.gke.io");
  await leads(controllerLease);
  const up = await engine.up();
  await world.client.resource(coreResources.leases).delete({ namespace: "kube-system", name: controllerLease });
  expect(up.text).not.toMatch(/error/);
  const ofStack = made(up).filter((one) => / (snapshots|pd)-/.test(one));
  expect(ofStack.sort()).toEqual([
    "account snapshots-store",
    "bucket snapshots-store",
    "bucketiammember snapshots-store",
    "iammember snapshots-store-identity",
    "iammember snapshots-store-signer",
    "volumesnapshotclass pd-checkpoint-retain",
    "volumesnapshotclass pd-clone-delete",
  ]);
  expect(up.outputs).toMatchObject({ findings: [] });
  const email = "stand-in@project.iam.gserviceaccount.com";
  const text = await state();
  const inputsOf = (type: string) => storeInputs(text, type);
  expect(inputsOf("gcp:storage/bucket:Bucket")).toMatchObject([
    {
      lifecycleRules: [
        { action: { type: "AbortIncompleteMultipartUpload" }, condition: { age: 7 } },
        { action: { type: "Delete" }, condition: { daysSinceNoncurrentTime: 7 } },
      ],
    },
  ]);
  expect(inputsOf("gcp:serviceaccount/iAMMember:IAMMember")).toMatchObject([
    { role: "roles/iam.workloadIdentityUser", member: "serviceAccount:p.svc.id.goog[ramet-system/ramet-controller]" },
    { role: "roles/iam.serviceAccountTokenCreator", member: `serviceAccount:${email}` },
  ]);
  expect(inputsOf("gcp:storage/bucketIAMMember:BucketIAMMember")).toMatchObject([
    { bucket: "p-ramet-checkpoints", role: "roles/storage.objectUser", member: `serviceAccount:${email}` },
  ]);
  const accounts = inputsOf("kubernetes:core/v1:ServiceAccount").map((account) => Account.parse(account).metadata);
  // Gateways do not access the store.
  expect(Object.fromEntries(accounts.map(({ name, annotations }) => [name, annotations]))).toEqual({
    "ramet-controller": { "iam.gke.io/gcp-service-account": email },
    "ramet-gateway": undefined,
  });
  expect(await state()).toContain("gs://p-ramet-checkpoints");
});

it("supports a cluster of a cloud as generic, and keeps the CRDs of its manager", async () => {
  await world.driver("diskplugin.csi.alibabacloud.com");
  const { engine } = await example("generic", { driver: "diskplugin.csi.alibabacloud.com" });
  const preview = await engine.preview();
  expect(preview.succeeded).toBe(true);
  expect(made(preview)).toContain("deployment snapshot-controller");
  expect(made(preview).filter((one) => one.startsWith("customresourcedefinition"))).toEqual([]);
});

it("checks AKS and declares classes, an account, an identity with access to it, and controllers that use it", async () => {
  await look({ "kubernetes.azure.com/cluster": "nodes" });
  await world.driver("disk.csi.azure.com");
  const named = { storageAccount: "agents", resourceGroup: "agents", location: "westeurope", ...images };
  const { engine, edit, state } = await example("aks", {
    ...named,
    subscriptionId: "s",
    issuerUrl: "https://issuer.example/",
  });
  await edit('cloud: "aks",', `cloud: "aks", transform: { cloud: ${locallyRedundant} },`);
  const preview = await engine.preview();
  expect(preview.text).not.toMatch(/error/);
  expect(made(preview)).toContain("deployment ramet-Deployment/ramet-controller");
  const up = await engine.up();
  expect(up.text).not.toMatch(/error/);
  expect(withoutRamet(made(up)).sort()).toEqual([
    "blobcontainer snapshots-store",
    "blobserviceproperties snapshots-store",
    "federatedidentitycredential snapshots-store",
    "readiness cluster",
    "readiness ramet-cluster",
    "roleassignment snapshots-store",
    "storageaccount snapshots-store",
    "userassignedidentity snapshots-store",
    "volumesnapshotclass azure-disk-checkpoint-retain",
    "volumesnapshotclass azure-disk-clone-delete",
  ]);
  expect(await state()).toMatch(/"sku": \{\s*"name": "Standard_LRS"/);
  // A rule for versions would count from when a checkpoint was written, not from when it was deleted.
  expect(storeInputs(await state(), "azure-native:storage:BlobServiceProperties")).toMatchObject([
    { blobServicesName: "default", deleteRetentionPolicy: { enabled: true, days: 7 } },
  ]);
  const { account, pod } = await controllers();
  expect(account.metadata.annotations).toEqual({ "azure.workload.identity/client-id": identityClientId });
  expect(pod.metadata.labels).toMatchObject({ "azure.workload.identity/use": "true" });
  expect(pod.spec.containers[0]?.args).toEqual(
    expect.arrayContaining(["--store", "azblob://checkpoints?account=agents"]),
  );
});

/** The inputs of the resources of a type in a state. */
function storeInputs(state: string, type: string): unknown[] {
  const { resources } = JSON.parse(state) as { resources: { type: string; inputs?: object }[] };
  return resources.filter((each) => each.type === type).map(({ inputs }) => inputs);
}

it("distinguishes the CRDs of ACS from Ramet's, and declares its classes", async () => {
  await look({ "alibabacloud.com/nodepool-id": "np1" });
  const { engine } = await example("acs", {});
  expect((await engine.preview()).text).toMatch(/CRDs Sandbox and Checkpoint .* of ACS does not exist/);
  await leads("f57b9a68.kruise.io");
  await leads(controllerLease);
  const up = await engine.up();
  expect(up.text).not.toMatch(/error/);
  expect(up).toMatchObject({ succeeded: true, outputs: { facts: { cloud: { name: "acs" }, findings: [] } } });
  expect(made(up)).toEqual([
    "volumesnapshotclass alibaba-disk-checkpoint-retain",
    "volumesnapshotclass alibaba-disk-clone-delete",
    "readiness cluster",
  ]);
});

it.each([
  [
    "eks",
    { "aws:region": "eu-central-1", "program:bucket": "checkpoints" },
    ["cluster", "nodegroup", "vpc", "repository"],
  ],
  ["gke", { "gcp:project": "agents", "gcp:region": "europe-west1" }, ["cluster", "nodepool", "network", "repository"]],
  [
    "aks",
    {
      "azure-native:location": "westeurope",
      "azure-native:subscriptionId": "s",
      "program:storageAccount": "agents",
      "program:certificate": "pem",
      "program:certificateKey": "pem",
    },
    ["managedcluster", "virtualnetwork", "registry", "zone"],
  ],
])("previews %s from an empty account to a pool and a key", async (name, settings, ofCloud) => {
  const program = await openProgram(`examples/${name}`, {
    kubeconfig: world.plane.kubeconfigPath,
    configuration: {
      ...settings,
      "program:domain": "sandboxes.example.org",
      "program:tag": "1",
      "program:checkpointKey": "a2V5",
    },
    secretKeys: ["program:checkpointKey"],
  });
  opened.push(program);
  const preview = await program.engine.preview();
  expect(preview.text).not.toMatch(/error/);
  expect(preview.succeeded).toBe(true);
  const created = preview.steps.map(({ type }) => (type.split(":").at(-1) ?? "").toLowerCase());
  expect(created).toEqual(expect.arrayContaining(ofCloud));
  const types = preview.steps.map(({ type }) => type);
  const own = ["NamedSnapshot", "SandboxClone", "ApiKey", "Readiness"].map((type) => `ramet:index:${type}`);
  expect(types.filter((type) => own.includes(type)).toSorted()).toEqual(own.toSorted());
  expect(types.filter((type) => type.startsWith("pulumi-nodejs:"))).toEqual([]);
  expect(created).toEqual(
    expect.arrayContaining(["namespace", "resourcequota", "rolebinding", "secret", "deployment", "sandboxset"]),
  );
  expect(preview.outputs).toMatchObject({ domain: "sandboxes.example.org" });
});

/** A setting of the storage account without an argument. */
const locallyRedundant = `({ type, inputs }) =>
  type === "azure-native:storage:StorageAccount" ? { ...inputs, sku: { name: "Standard_LRS" } } : inputs`;
const eksOptions = {
  cluster: "prod",
  bucket: "agents-checkpoints",
  image: "r.example/ramet:1",
  cellImage: "r.example/cell:1",
};
const images = { image: "registry.example/ramet:1", cellImage: "registry.example/ramet-cell:1" };

function withoutRamet(steps: string[]): string[] {
  return steps.filter((one) => !/ ramet-[A-Z]/.test(one));
}

/** The service account and the Pod template of the controllers. */
async function controllers() {
  const name = { namespace: systemNamespace, name: controllerName };
  const account = await world.client.resource(serviceAccounts).get(name);
  const { spec } = Deployment.parse(await world.client.resource(refs.deployments).get(name));
  return { account, pod: spec.template };
}

const serviceAccounts = {
  group: "",
  version: "v1",
  plural: "serviceaccounts",
  kind: "ServiceAccount",
  namespaced: true,
};
const Account = z.object({
  metadata: z.object({ name: z.string(), annotations: z.record(z.string(), z.string()).optional() }),
});

const Deployment = z.object({
  spec: z.object({
    template: z.object({
      metadata: z.object({ labels: z.record(z.string(), z.string()) }),
      spec: z.object({ containers: z.array(z.object({ args: z.array(z.string()) })) }),
    }),
  }),
});

/** Creates the node from which the cloud is detected. */
async function look(labels: Record<string, string>): Promise<void> {
  const nodes = world.client.resource(coreResources.nodes);
  await nodes.delete({ name: "one" });
  await world.apply(coreResources.nodes, { apiVersion: "v1", kind: "Node", metadata: { name: "one", labels } });
}

/** Renews a lease, like a controller that the cloud runs outside the cluster. */
async function leads(name: string): Promise<void> {
  const spec = { holderIdentity: "somebody", leaseDurationSeconds: 15, renewTime: microTime(new Date()) };
  const metadata = { namespace: "kube-system", name };
  await world.apply(coreResources.leases, { apiVersion: "coordination.k8s.io/v1", kind: "Lease", metadata, spec });
}

async function bringCrds(fieldManager: string): Promise<void> {
  const { crds } = await upstreamCrds();
  const core = crds.filter(({ metadata }) => crdNames.core.includes(metadata.name));
  for (const crd of core) await world.apply(coreResources.crds, crd, fieldManager);
  await expect
    .poll(async () => (await world.observe()).crds.filter(({ served }) => served.includes("v1")).length)
    .toBe(core.length);
  await expect
    .poll(() =>
      world.client
        .resource(refs.classes)
        .list()
        .then(
          () => true,
          () => false,
        ),
    )
    .toBe(true);
}

async function example(name: string, values: Record<string, string>, stack = "test"): Promise<ProgramWorld> {
  const configuration = Object.fromEntries(Object.entries(values).map(([key, value]) => [`program:${key}`, value]));
  const { kubeconfigPath: kubeconfig } = world.plane;
  const isHere = ["eks", "gke", "aks"].includes(name);
  const path = `${isHere ? "test/program/programs" : "examples"}/${name}`;
  const program = await openProgram(path, { kubeconfig, configuration, stack });
  opened.push(program);
  return program;
}

/** Kind and name of the created resources. */
function made({ steps }: RunResult): string[] {
  return steps
    .filter(({ operation, type }) => operation === "create" && !/^(pulumi|ramet):/.test(type))
    .map(({ type, name }) => {
      const kind = (type.split(":").at(-1) ?? "").toLowerCase();
      return `${kind} ${name.replace(/^snapshots-(?!ebs-csi|store)/, "").replace(/^\w+\//, "")}`;
    });
}
