import { once } from "node:events";
import { createServer, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { Sandbox } from "../../src/api/kinds/sandbox.ts";
import { apiVersion } from "../../src/api/schema/kind.ts";
import { findCondition } from "../../src/kube/conditions.ts";
import { coreResources } from "../../src/kube/resource-ref.ts";
import { account, ownArchitecture, startRegistry, type TestRegistry } from "../setup/registry.ts";
import { type Cluster, openCluster } from "./controllers-cluster.ts";
import { StandInNode } from "./controllers-stand-in-node.ts";

/** Registries that fail: each has a reason on the object. The node is a stand-in, which pulls nothing. */
let cluster: Cluster;
let registry: TestRegistry;
let protectedRegistry: TestRegistry;
let slow: Server;
let slowHost: string;
const namespace = "faults";
const otherArchitecture = ownArchitecture === "amd64" ? "arm64" : "amd64";
/** The answer of the slow registry. */
let answerSlowly: (response: ServerResponse) => void = () => undefined;

beforeAll(async () => {
  registry = await startRegistry();
  protectedRegistry = await startRegistry({ auth: "basic" });
  slow = createServer((_, response) => {
    answerSlowly(response);
  });
  slow.listen(0, "127.0.0.1");
  await once(slow, "listening");
  slowHost = `127.0.0.1:${(slow.address() as AddressInfo).port}`;
  const insecureRegistries = [registry.host, protectedRegistry.host, slowHost];
  cluster = await openCluster({ startNode: new StandInNode().start, registries: { insecureRegistries } });
  await cluster.namespace(namespace);
});
afterAll(async () => {
  await cluster.close();
  slow.closeAllConnections();
  slow.close();
  await registry.stop();
  await protectedRegistry.stop();
});

async function create(name: string, image: string, spec: object = {}, command?: string[]): Promise<void> {
  const containers = [{ name: "main", image, ...(command && { command }) }];
  const metadata = { name, namespace };
  const template = { spec: { ...spec, containers } };
  await cluster.create({ apiVersion, kind: "Sandbox", metadata, spec: { template } });
}

const at = (name: string, holds: (sandbox: Sandbox) => boolean) => cluster.sandbox(`${namespace}/${name}`, holds);

/** The message of a sandbox without a command, which waits for its image. */
async function heldBy(name: string): Promise<string> {
  const held = await at(name, ({ status }) => findCondition(status?.conditions, "Ready")?.reason === "ImageUnknown");
  expect(held.status?.phase).toBe("Pending");
  expect(cluster.seen.pods.store.get(`${namespace}/${name}`)).toBeUndefined();
  return findCondition(held.status?.conditions, "Ready")?.message ?? "";
}

async function runs(name: string): Promise<Sandbox> {
  return at(name, ({ status }) => status?.phase === "Running");
}

it("names a registry that accepts connections and stays silent, and one whose answer does not end in time", async () => {
  await create("silent", `${slowHost}/app:1`);
  await create("with-command", `${slowHost}/app:1`, {}, ["sleep", "1"]);
  expect(await heldBy("silent")).toMatch(
    new RegExp(`Reading the image ${slowHost}/app:1 from ${slowHost} failed: .*10 s.*Set command in the template`),
  );
  // A sandbox with a command starts after the same time.
  expect(findCondition((await runs("with-command")).status?.conditions, "ImageResolved")).toMatchObject({
    status: "False",
    reason: "Timeout",
  });
  answerSlowly = (response) => response.write("{");
  await create("stalled", `${slowHost}/stalled:1`);
  expect(await heldBy("stalled")).toMatch(/\/stalled:1 from .* failed: .*10 s/);
});

it("names a registry whose answer does not end", async () => {
  answerSlowly = (response) => {
    const write = (): void => {
      while (!response.destroyed && response.write("x".repeat(65_536)));
      if (!response.destroyed) response.once("drain", write);
    };
    write();
  };
  await create("endless", `${slowHost}/endless:1`);
  expect(await heldBy("endless")).toContain("its answer is larger than 4194304 bytes");
});

it("reports credentials that the registry refuses, without repeating them, and starts with correct ones", async () => {
  await protectedRegistry.push("private/app", "1", { Cmd: ["run"] });
  const configOf = (password: string) => {
    const auth = Buffer.from(`${account.username}:${password}`).toString("base64");
    return JSON.stringify({ auths: { [protectedRegistry.host]: { auth } } });
  };
  const secrets = cluster.client.resource(coreResources.secrets);
  const type = "kubernetes.io/dockerconfigjson";
  const metadata = { name: "pull", namespace };
  const wrong = configOf("an-old-password");
  await secrets.create({
    apiVersion: "v1",
    kind: "Secret",
    metadata,
    type,
    stringData: { ".dockerconfigjson": wrong },
  });
  await create("refused", `${protectedRegistry.host}/private/app:1`, { imagePullSecrets: [{ name: "pull" }] });
  const message = await heldBy("refused");
  expect(message).toMatch(/private\/app:1 from .* failed: .*credentials/);
  expect(message).toContain("[Unauthorized]");
  expect(message).not.toContain("an-old-password");
  await secrets.mergePatch(metadata, { stringData: { ".dockerconfigjson": configOf(account.password) } });
  await runs("refused");
});

it("reports a digest that is gone from the registry", async () => {
  const digest = await registry.push("tools/gone", "1", { Cmd: ["run"] });
  await registry.remove("tools/gone", digest);
  await create("gone", `${registry.host}/tools/gone@${digest}`);
  const message = await heldBy("gone");
  expect(message).toContain(`${digest} from ${registry.host} failed: it responded with status 404: MANIFEST_UNKNOWN`);
  expect(message).toContain("[ImageNotFound]");
});

it("names the architectures of an image that has none of those that the template asks for", async () => {
  await registry.push("tools/foreign", "1", { Cmd: ["run"] }, { architecture: otherArchitecture });
  const nodeSelector = { "kubernetes.io/arch": ownArchitecture };
  await create("foreign", `${registry.host}/tools/foreign:1`, { nodeSelector });
  expect(await heldBy("foreign")).toContain(
    `the image is for linux/${otherArchitecture}, not for linux/${ownArchitecture}. Use an image for the nodes' architecture`,
  );
  // Without a selector, the Pod gets that of the image, and waits for such a node.
  await create("unplaced", `${registry.host}/tools/foreign:1`);
  const { spec } = await cluster.pod(`${namespace}/unplaced`, () => true);
  expect(spec["nodeSelector"]).toEqual({ "kubernetes.io/arch": otherArchitecture });
});
