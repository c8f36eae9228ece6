import { afterAll, beforeAll, expect, it } from "vitest";
import { CellConfig } from "../../src/api/wire/cell-api.ts";
import { apiVersion } from "../../src/api/schema/kind.ts";
import type { Pod } from "../../src/api/schema/pod.ts";
import { annotations } from "../../src/api/names/labels.ts";
import { findCondition } from "../../src/kube/conditions.ts";
import { coreResources } from "../../src/kube/resource-ref.ts";
import { Cells } from "../setup/cells.ts";
import { account, ownArchitecture, startRegistry, type TestRegistry } from "../setup/registry.ts";
import { type Cluster, openCluster } from "./controllers-cluster.ts";
import { StandInNode } from "./controllers-stand-in-node.ts";

/**
 * The controllers look images up in real registries. The node is a stand-in, so these tests do not prove that a kubelet pulls what
 * a Pod names; test/kubelet does.
 */
let cluster: Cluster;
let registry: TestRegistry;
let protectedRegistry: TestRegistry;
const namespace = "images";

const image = {
  Entrypoint: ["/bin/sh", "-c"],
  Cmd: ["echo $GREETING $(id -un):$(id -gn) in $(pwd) > /tmp/said; sleep infinity"],
  Env: ["GREETING=hello"],
  WorkingDir: "/usr/share",
  User: "daemon:mail",
};

beforeAll(async () => {
  registry = await startRegistry();
  protectedRegistry = await startRegistry({ auth: "basic" });
  const insecureRegistries = [registry.host, protectedRegistry.host];
  cluster = await openCluster({ startNode: new StandInNode().start, registries: { insecureRegistries } });
  await cluster.namespace(namespace);
});

afterAll(async () => {
  await cluster.close();
  await registry.stop();
  await protectedRegistry.stop();
});

function sandbox(name: string, container: object, spec: object = {}, more: object = {}) {
  const template = { spec: { ...spec, containers: [{ name: "main", ...container }] } };
  return cluster.create({
    apiVersion,
    kind: "Sandbox",
    metadata: { name, namespace, ...more },
    spec: { template },
  });
}

const running = (name: string) => cluster.sandbox(`${namespace}/${name}`, ({ status }) => status?.phase === "Running");
const podOf = (name: string) => cluster.pod(`${namespace}/${name}`, () => true);

/** Returns the image that a kubelet would pull. */
function pulled({ spec }: Pod): unknown {
  const [volume] = (spec.volumes ?? []).filter(({ name }) => name === "ramet-root");
  return (volume as { image?: { reference?: string } } | undefined)?.image?.reference;
}

function variable({ spec }: Pod, name: string): string | undefined {
  return spec.containers[0]?.env?.find((each) => each.name === name)?.value;
}

it("pins the digest of an image, and a real cell runs what the image says, as its user, in its directory", async () => {
  const digest = await registry.push("tools/app", "1.0", image);
  await sandbox("first", { image: `${registry.host}/tools/app:1.0` });
  await running("first");
  const pod = await podOf("first");
  expect(pulled(pod)).toBe(`${registry.host}/tools/app@${digest}`);
  expect(pod.spec).toMatchObject({ nodeSelector: { "kubernetes.io/arch": ownArchitecture } });

  const cells = await Cells.open();
  try {
    const { container } = CellConfig.parse(JSON.parse(variable(pod, "RAMET_CELL") ?? ""));
    const environment = { RAMET_IMAGE_CONFIG: variable(pod, "RAMET_IMAGE_CONFIG") ?? "" };
    const cell = await cells.boot({ name: "first", container, environment });
    await expect.poll(() => cells.output(cell, "cat /tmp/said")).toBe("hello daemon:mail in /usr/share");
  } finally {
    await cells.close();
  }
});

it("holds a sandbox without a command while the registry is down, says why, and starts it afterwards", async () => {
  const digest = await registry.push("tools/later", "1", image);
  await registry.kill();
  await sandbox("held", { image: `${registry.host}/tools/later:1` });
  await sandbox("explicit", { image: `${registry.host}/tools/later:1`, command: ["sleep", "infinity"] });
  const held = await cluster.sandbox(
    `${namespace}/held`,
    ({ status }) => findCondition(status?.conditions, "Ready")?.reason === "ImageUnknown",
  );
  const { message } = findCondition(held.status?.conditions, "Ready") ?? {};
  expect(message).toContain(`the entrypoint of the image ${registry.host}/tools/later:1 is unknown`);
  expect(message).toContain(`${registry.host} cannot be reached`);
  expect(message).toContain("Set command in the template");

  const explicit = await running("explicit");
  expect(findCondition(explicit.status?.conditions, "ImageResolved")).toMatchObject({
    status: "False",
    reason: "Unavailable",
    message: expect.stringContaining("The image is not pinned") as string,
  });
  expect(pulled(await podOf("explicit"))).toBe(`${registry.host}/tools/later:1`);

  await registry.restart();
  await running("held");
  expect(pulled(await podOf("held"))).toBe(`${registry.host}/tools/later@${digest}`);
});

it("reads a private image with the Secrets of the Pod, else with those of its service account", async () => {
  const digest = await protectedRegistry.push("private/app", "1", image);
  const name = `${protectedRegistry.host}/private/app:1`;
  await sandbox("refused", { image: name });
  const refused = await cluster.sandbox(
    `${namespace}/refused`,
    ({ status }) => findCondition(status?.conditions, "Ready")?.reason === "ImageUnknown",
  );
  expect(refused.status?.message).toContain("it asks for credentials");

  const auth = Buffer.from(`${account.username}:${account.password}`).toString("base64");
  const config = JSON.stringify({ auths: { [protectedRegistry.host]: { auth } } });
  await cluster.client.resource(coreResources.secrets).create({
    apiVersion: "v1",
    kind: "Secret",
    metadata: { name: "pull", namespace },
    type: "kubernetes.io/dockerconfigjson",
    stringData: { ".dockerconfigjson": config },
  });
  const accounts = cluster.client.resource(coreResources.serviceAccounts);
  await accounts.mergePatch(
    { name: "default", namespace },
    { imagePullSecrets: [{ name: "missing" }, { name: "pull" }] },
  );
  // It is asked again, and then has the service account's Secrets.
  await running("refused");
  await sandbox("named", { image: name }, { imagePullSecrets: [{ name: "pull" }] });
  await running("named");
  for (const each of ["refused", "named"]) {
    expect(pulled(await podOf(each))).toBe(`${protectedRegistry.host}/private/app@${digest}`);
  }
  const text = JSON.stringify([await running("named"), await podOf("named")]);
  expect(text).not.toContain(auth);
});

it("gives a clone the image of its source, although the tag has moved and the registry is down", async () => {
  const digest = await registry.push("tools/moving", "1", image);
  const name = `${registry.host}/tools/moving:1`;
  await sandbox("source", { image: name });
  await running("source");
  await cluster.create({
    apiVersion,
    kind: "Checkpoint",
    metadata: { name: "kept", namespace },
    spec: { sandboxName: "source" },
  });
  const kept = await cluster.checkpoint(`${namespace}/kept`, ({ status }) => status?.phase === "Succeeded");
  await registry.push("tools/moving", "1", { Cmd: ["other"] });
  await registry.kill();
  const restore = { annotations: { "ramet.dev/restore-from": kept.status?.checkpointId ?? "" } };
  await sandbox("clone", { image: name }, {}, restore);
  await cluster.create({ apiVersion, kind: "Sandbox", metadata: { name: "bare", namespace, ...restore }, spec: {} });
  for (const each of ["clone", "bare"]) {
    const pod = await podOf(each);
    expect(pulled(pod)).toBe(`${registry.host}/tools/moving@${digest}`);
    expect(variable(pod, "RAMET_IMAGE_CONFIG")).toBe(variable(await podOf("source"), "RAMET_IMAGE_CONFIG"));
  }
  await registry.restart();
});

it("gives a resumed sandbox, and a clone of a paused one, the image that was paused", async () => {
  const digest = await registry.push("tools/paused", "1", image);
  const name = `${registry.host}/tools/paused:1`;
  await sandbox("sleeper", { image: name });
  await running("sleeper");
  const setPaused = (paused: boolean) =>
    cluster.seen.sandboxes.resource.mergePatch({ namespace, name: "sleeper" }, { spec: { paused } });
  await setPaused(true);
  await cluster.sandbox(
    `${namespace}/sleeper`,
    ({ status }) => findCondition(status?.conditions, "SandboxPaused")?.status === "True",
  );
  await registry.push("tools/paused", "1", { Cmd: ["other"] });
  await cluster.create({
    apiVersion,
    kind: "Checkpoint",
    metadata: { name: "stored", namespace },
    spec: { sandboxName: "sleeper" },
  });
  const stored = await cluster.checkpoint(`${namespace}/stored`, ({ status }) => status?.phase === "Succeeded");
  const restore = { annotations: { "ramet.dev/restore-from": stored.status?.checkpointId ?? "" } };
  await cluster.create({ apiVersion, kind: "Sandbox", metadata: { name: "woken", namespace, ...restore }, spec: {} });
  await setPaused(false);
  for (const each of ["woken", "sleeper"]) {
    await running(each);
    expect(pulled(await podOf(each))).toBe(`${registry.host}/tools/paused@${digest}`);
  }
});

it("gives all sandboxes of a set's revision one image, although the tag moves", async () => {
  const digest = await registry.push("tools/pooled", "1", image);
  const template = { spec: { containers: [{ name: "main", image: `${registry.host}/tools/pooled:1` }] } };
  await cluster.create({
    apiVersion,
    kind: "SandboxSet",
    metadata: { name: "pool", namespace },
    spec: { replicas: 1, template },
  });
  const pods = () => {
    const all = [...cluster.seen.sandboxes.store.list()].filter(({ metadata }) =>
      metadata.ownerReferences?.some((owner) => owner.name === "pool"),
    );
    return all.flatMap(({ metadata }) => cluster.seen.pods.store.get(`${namespace}/${metadata.name}`) ?? []);
  };
  await expect.poll(() => pods().length, { timeout: 60_000 }).toBe(1);
  await registry.push("tools/pooled", "1", { Cmd: ["other"] });
  await registry.kill();
  const sets = cluster.seen.sets.resource;
  await sets.mergePatch({ name: "pool", namespace }, { spec: { replicas: 3 } });
  await expect.poll(() => pods().length, { timeout: 60_000 }).toBe(3);
  await registry.restart();
  expect(pods().map(pulled)).toEqual(Array(3).fill(`${registry.host}/tools/pooled@${digest}`));
});

it("asks no registry for an image that is recorded in the template, or that only the node has", async () => {
  const name = "nowhere.invalid/app:1";
  const recorded = {
    name,
    reference: `nowhere.invalid/app@sha256:${"a".repeat(64)}`,
    config: { cmd: ["recorded"], architecture: ownArchitecture },
  };
  await cluster.create({
    apiVersion,
    kind: "SandboxTemplate",
    metadata: { name: "recorded", namespace },
    spec: {
      template: {
        metadata: { annotations: { [annotations.image]: JSON.stringify(recorded) } },
        spec: { containers: [{ name: "main", image: name }] },
      },
    },
  });
  const metadata = { name: "recorded", namespace };
  await cluster.create({ apiVersion, kind: "Sandbox", metadata, spec: { templateRef: { name: "recorded" } } });
  await running("recorded");
  const pod = await podOf("recorded");
  expect(pulled(pod)).toBe(recorded.reference);
  expect(JSON.parse(variable(pod, "RAMET_IMAGE_CONFIG") ?? "")).toMatchObject({ cmd: ["recorded"] });

  await sandbox("never", { image: name, imagePullPolicy: "Never" });
  await running("never");
  expect(pulled(await podOf("never"))).toBe(name);
});
