import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { apiKeyKind } from "../../src/api/kinds/api-key.ts";
import { controllerName, gatewayName, systemNamespace } from "../../src/api/names/system-names.ts";
import { rotationConfigMap, rotationEntry, rotationIn } from "../../src/api/names/key-rotation.ts";
import { silentLog } from "../../src/base/log.ts";
import { sandboxResources } from "../../src/controllers/cluster/resources.ts";
import { runControllers } from "../../src/controllers/run.ts";
import { runGateway } from "../../src/gateway/run.ts";
import type { Manifest } from "../../src/install/manifest.ts";
import { serverManifests } from "../../src/install/manifests.ts";
import { explicitConnection } from "../../src/kube/connection.ts";
import { KubeClient, type RequestRecord } from "../../src/kube/kube-client.ts";
import type { KubeObject } from "../../src/kube/object.ts";
import { coreResources, type ResourceRef } from "../../src/kube/resource-ref.ts";
import { directoryStore } from "../../src/store/directory/store.ts";
import { StandInNode } from "../cluster/controllers-stand-in-node.ts";
import { openControlPlane, type TestControlPlane } from "../setup/control-plane.ts";
import { makeNamespace } from "../setup/namespace.ts";
import { tokenOf } from "../setup/service-accounts.ts";
import { objectOf, refOfKind, refusal } from "./tenant-cluster.ts";

/**
 * The controllers and a gateway on a real API server, with the tokens of their service accounts and nothing but the installed
 * rights for one namespace. Cells are stand-ins: this is about the API.
 */
const [served, other] = ["team-a", "team-b"] as const;
const end = new AbortController();
const requests: RequestRecord[] = [];
let plane: TestControlPlane;
let directory: string;
let administrator: KubeClient;
let controller: KubeClient;
let gateway: KubeClient;
const running: Promise<unknown>[] = [];

const secret = { apiVersion: "v1", kind: "Secret" };
const spec = { template: { spec: { containers: [{ name: "main", image: "python" }] } } };

beforeAll(async () => {
  plane = await openControlPlane();
  directory = await mkdtemp(join(tmpdir(), "ramet-served-"));
  administrator = new KubeClient(plane.connection);
  for (const namespace of [systemNamespace, served, other]) {
    await makeNamespace(administrator, namespace);
    const metadata = { name: "secret", namespace };
    await administrator.resource(coreResources.secrets).create({ ...secret, metadata });
    await administrator.resource(coreResources.pods).create(objectOf("Pod", metadata, spec.template.spec));
  }
  await administrator
    .resource(sandboxResources.sandboxes)
    .create(objectOf("Sandbox", { name: "a", namespace: other }, spec));
  for (const manifest of rights()) {
    await administrator.resource(refOf(manifest)).apply(manifest, { fieldManager: "test" });
  }
  controller = await clientOf(controllerName, (record) => requests.push(record));
  gateway = await clientOf(gatewayName);
  const node = await new StandInNode().start({
    client: administrator,
    controlPlane: plane,
    directory,
    signal: end.signal,
  });
  await untilAllowed();
  requests.length = 0;
  running.push(node.stopped, startControllers());
}, 120_000);

afterAll(async () => {
  end.abort();
  await Promise.allSettled(running);
  for (const client of [administrator, controller, gateway]) await client.close();
  await plane.stop();
  await rm(directory, { recursive: true, force: true });
});

const patient = { timeout: 30_000, interval: 20 };

/** The installed objects that RBAC reads, for one served namespace. */
function rights(): Manifest[] {
  const options = {
    namespace: systemNamespace,
    image: "ramet",
    cellImage: "cell",
    replicas: 1,
    gatewayReplicas: 1,
    store: { directory: "/store", claim: "store" },
    clusterRanges: [],
    servedNamespaces: [served],
  };
  return serverManifests(options).filter(({ kind }) => /^(ServiceAccount|(Cluster)?Role(Binding)?)$/.test(kind));
}

function refOf({ apiVersion, kind, metadata }: Manifest): ResourceRef {
  const [version = "", group = ""] = apiVersion.split("/").reverse();
  return { group, version, plural: `${kind.toLowerCase()}s`, kind, namespaced: metadata.namespace !== undefined };
}

async function clientOf(name: string, onRequest: (record: RequestRecord) => void = () => undefined) {
  const token = await tokenOf(administrator, { namespace: systemNamespace, name });
  return new KubeClient(explicitConnection({ server: plane.server, ca: plane.ca, token }), { onRequest });
}

/** An API server knows a right some moments after it was written: the last ones in a namespace, in the system's and in none. */
async function untilAllowed(): Promise<void> {
  const { pods, configMaps, nodes } = coreResources;
  await vi.waitFor(async () => {
    expect(await refusal(controller.resource(pods).list({ namespace: served }))).toBe("");
    expect(await refusal(controller.resource(configMaps).find({ namespace: systemNamespace, name: "none" }))).toBe("");
    expect(await refusal(controller.resource(nodes).list())).toBe("");
  }, patient);
}

async function startControllers(): Promise<void> {
  await runControllers({
    client: controller,
    store: { checkpoints: directoryStore({ root: directory }) },
    cells: { cellImage: "ramet.dev/cell:test" },
    namespaces: { served: [served] },
    leaderElection: { identity: "test" },
    upkeep: { keyRotation: { pauseMilliseconds: 50, settleMilliseconds: 0 } },
    signal: end.signal,
  });
}

const create = (kind: string, name: string, body: object, namespace: string = served) =>
  administrator.resource(refOfKind(kind)).create(objectOf(kind, { name, namespace }, body));
const status = async (kind: string, name: string, namespace: string = served) => {
  const found = await administrator.resource(refOfKind(kind)).get({ name, namespace });
  return (found as { status?: Record<string, unknown> }).status;
};
const untilStatus = (kind: string, name: string, fields: object) =>
  vi.waitFor(async () => {
    expect(await status(kind, name)).toMatchObject(fields);
  }, patient);

it("run sandboxes, sets, claims and checkpoints of the served namespace with the rights in it", async () => {
  await create("Sandbox", "a", spec);
  await create("SandboxSet", "set", { replicas: 1, ...spec });
  await untilStatus("Sandbox", "a", { phase: "Running" });
  await untilStatus("SandboxSet", "set", { availableReplicas: 1 });
  await create("SandboxClaim", "claim", { templateName: "set" });
  await untilStatus("SandboxClaim", "claim", { phase: "Completed" });
  await create("Checkpoint", "one", { podName: "a" });
  await untilStatus("Checkpoint", "one", { phase: "Succeeded" });
  await administrator.resource(sandboxResources.sandboxes).delete({ namespace: served, name: "a" });
});

it("rotate a key with them", async () => {
  const maps = administrator.resource(coreResources.configMaps);
  // Without waiting for cells: stand-in cells do not take keys.
  const data = { [rotationEntry("cells", "request")]: "now", [rotationEntry("cells", "force")]: "now" };
  const manifest = { apiVersion: "v1", kind: "ConfigMap", metadata: rotationConfigMap, data };
  await maps.apply(manifest, { fieldManager: "test" });
  await vi.waitFor(async () => {
    const found = (await maps.get(rotationConfigMap)) as { data?: Record<string, string> };
    expect(rotationIn(found.data ?? {}, "cells").state).toMatchObject({ request: "now", step: "done" });
  }, patient);
});

it("make no request that the rights do not allow", () => {
  expect(requests.length).toBeGreaterThan(20);
  expect(requests.filter(({ httpStatus }) => httpStatus === 403)).toEqual([]);
});

it("leave a Sandbox of another namespace alone", async () => {
  expect(await status("Sandbox", "a", other)).toBeUndefined();
});

it.each(["secrets", "pods", "configMaps"] as const)("cannot read %s of another namespace", async (plural) => {
  for (const client of [controller, gateway]) {
    const resource = client.resource(coreResources[plural]);
    expect(await refusal(resource.get({ namespace: other, name: "secret" }))).toMatch(/is forbidden/);
    expect(await refusal(resource.list({ namespace: other }))).toMatch(/is forbidden/);
    expect(await refusal(resource.list())).toMatch(/is forbidden/);
  }
  if (plural === "configMaps") return;
  const own = controller.resource(coreResources[plural]);
  expect(await refusal(own.get({ namespace: served, name: "secret" }))).toBe("");
});

it("can neither create Pods nor read sandboxes and keys in another namespace, nor change its Namespace", async () => {
  const pod = objectOf("Pod", { name: "mine", namespace: other }, spec.template.spec);
  expect(await refusal(controller.resource(coreResources.pods).create(pod))).toMatch(/is forbidden/);
  for (const client of [controller, gateway]) {
    const sandboxes = client.resource(sandboxResources.sandboxes);
    expect(await refusal(sandboxes.get({ namespace: other, name: "a" }))).toMatch(/is forbidden/);
    expect(await refusal(sandboxes.list())).toMatch(/is forbidden/);
    expect(await refusal(client.of(apiKeyKind).list({ namespace: other }))).toMatch(/is forbidden/);
    expect(await refusal(client.of(apiKeyKind).list())).toMatch(/is forbidden/);
  }
  const namespaces = controller.resource(coreResources.namespaces);
  const label = { metadata: { labels: { mine: "too" } } };
  expect(await refusal(namespaces.mergePatch({ name: other }, label))).toMatch(/is forbidden/);
  expect(await refusal(namespaces.list())).toMatch(/is forbidden/);
  expect(await refusal(namespaces.mergePatch({ name: served }, label))).toBe("");
});

it("lets a gateway follow the sandboxes and the keys of the served namespace", async () => {
  const ready = Promise.withResolvers<undefined>();
  const problems: string[] = [];
  const log = Object.assign({}, silentLog, { error: (_: unknown, problem: string) => problems.push(problem) });
  const gatewayRuns = runGateway({
    client: gateway,
    port: 0,
    address: "127.0.0.1",
    servedNamespaces: [served],
    log,
    onReady: () => {
      ready.resolve(undefined);
    },
    signal: end.signal,
  });
  running.push(gatewayRuns);
  await Promise.race([ready.promise, gatewayRuns]);
  const sandboxes = gateway.resource(sandboxResources.sandboxes, (value) => value as KubeObject);
  expect((await sandboxes.list({ namespace: served })).items.length).toBeGreaterThan(0);
  expect(problems).toEqual([]);
});
