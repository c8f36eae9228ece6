import { afterAll, beforeAll, expect, it } from "vitest";
import { guestClientPort } from "../../src/api/wire/cell-api.ts";
import { CellClient } from "../../src/cell/client/cell-client.ts";
import { containerUser, GuestClient } from "../../src/cell/client/guest-client.ts";
import { clusterCredentials } from "../../src/backends/cluster-keys.ts";
import { counterPort } from "../setup/counter.ts";
import { slowTemplate } from "./counter.ts";
import { openCluster, type Cluster } from "./controllers-cluster.ts";
import { realNode } from "./controllers-real-node.ts";

/** Tests the contents of a claimed sandbox with real cells and real gVisor. */
let cluster: Cluster;

beforeAll(async () => {
  cluster = await openCluster({ startNode: realNode() });
  await cluster.namespace("t");
});
afterAll(() => cluster.close());

const apiVersion = "agents.kruise.io/v1alpha1";
const template = {
  spec: {
    terminationGracePeriodSeconds: 1,
    containers: [{ name: "main", image: "python", command: ["sleep", "1000000"] }],
  },
};

async function output(name: string, command: string): Promise<string> {
  const sandbox = await cluster.sandbox(`t/${name}`, ({ status }) => status?.phase === "Running");
  const { uid } = sandbox.metadata;
  const credentials = await clusterCredentials(cluster.client);
  const cells = new CellClient(credentials.key);
  const address = { ip: sandbox.status?.sandboxIp ?? "", sandboxUid: uid };
  const guest = new GuestClient({
    dial: () => cells.dial(address, guestClientPort),
    accessToken: credentials.guestToken(uid),
    user: containerUser,
  });
  let text = "";
  for await (const event of guest.startProcess({ command: "sh", args: ["-c", command] })) {
    if (event.type === "data") text += event.data.toString();
  }
  cells.close();
  return text.trim();
}

/** The variables that the creator of a sandbox for an E2B client requests. */
const ofClient = (templateId: string) => ({ E2B_SANDBOX: "true", E2B_TEMPLATE_ID: templateId });
/** Prints the variables of E2B, if their files have the same values. */
const marks =
  "cd /run/e2b && set -- $E2B_SANDBOX $E2B_SANDBOX_ID $E2B_TEMPLATE_ID && " +
  'test "$*" = "$(cat .E2B_SANDBOX) $(cat .E2B_SANDBOX_ID) $(cat .E2B_TEMPLATE_ID)" && echo $*';
const clientId = async (name: string): Promise<string> =>
  (await cluster.sandbox(`t/${name}`, () => true)).metadata.uid.replaceAll("-", "");

/** A ready sandbox of a set that is not claimed. */
const findReady = () =>
  cluster.seen.sandboxes.store
    .list()
    .find(({ status, metadata }) => status?.phase === "Running" && metadata.ownerReferences?.length === 1);
const findClaim = (name: string) => cluster.seen.claims.store.get(`t/${name}`)?.status;

it("waits for the slow starts of a set without stock while controllers restart", async () => {
  await cluster.create({
    apiVersion,
    kind: "SandboxSet",
    metadata: { name: "empty", namespace: "t" },
    spec: { replicas: 0, template },
  });
  const claims = ["s0", "s1", "s2", "s3", "s4", "s5"];
  for (const name of claims) {
    // Every start takes longer than waitReadyTimeout.
    const spec = { templateName: "empty", waitReadyTimeout: "1s", claimTimeout: "3m" };
    await cluster.create({ apiVersion, kind: "SandboxClaim", metadata: { name, namespace: "t" }, spec });
  }
  const ofClaims = () =>
    cluster.seen.sandboxes.store
      .list()
      .map(({ metadata }) => metadata)
      .filter(({ labels = {} }) => claims.includes(labels["agents.kruise.io/claim-name"] ?? ""))
      .map(({ uid }) => uid)
      .sort();
  await expect.poll(() => ofClaims().length, { timeout: 60_000 }).toBe(claims.length);
  const created = ofClaims();
  await cluster.restartControllers();
  const delivered = () => claims.filter((name) => findClaim(name)?.ramet?.sandboxes?.length === 1);
  await expect.poll(delivered, { timeout: 180_000 }).toEqual(claims);
  expect(ofClaims()).toEqual(created);
  for (const name of claims) {
    const [sandbox = ""] = findClaim(name)?.ramet?.sandboxes ?? [];
    expect(await output(sandbox, "echo $((6 * 7))")).toBe("42");
    await cluster.seen.sandboxes.resource.delete({ namespace: "t", name: sandbox });
  }
}, 300_000);

it("claims a ready sandbox that keeps running, and gives new commands the claim's variables", async () => {
  await cluster.create({
    apiVersion,
    kind: "SandboxSet",
    metadata: { name: "set", namespace: "t" },
    spec: { replicas: 1, template },
  });
  await expect.poll(findReady, { timeout: 60_000 }).toBeDefined();
  const { name } = findReady()!.metadata;
  await output(name, "echo warmed > /state");
  await cluster.create({
    apiVersion,
    kind: "SandboxClaim",
    metadata: { name: "c", namespace: "t" },
    spec: { templateName: "set", envVars: { TASK: "42", ...ofClient("set") } },
  });
  await expect.poll(() => findClaim("c")?.phase, { timeout: 60_000 }).toBe("Completed");
  expect(findClaim("c")?.ramet?.sandboxes).toEqual([name]);
  expect(await output(name, "echo $TASK; cat /state; hostname")).toBe(`42\nwarmed\n${name}`);
  expect(await output(name, marks)).toBe(`true ${await clientId(name)} set`);
});

it("restores a checkpoint in place in the claimed Pod, under the sandbox's own name", async () => {
  const { ramet: claimed } = findClaim("c") ?? {};
  const [source = ""] = claimed?.sandboxes ?? [];
  await cluster.create({
    apiVersion,
    kind: "Checkpoint",
    metadata: { name: "warm", namespace: "t" },
    spec: { sandboxName: source },
  });
  const { status } = await cluster.checkpoint("t/warm", ({ status: now }) => now?.phase === "Succeeded");
  await expect.poll(findReady, { timeout: 60_000 }).toBeDefined();
  const before = findReady();
  const from = { annotations: { "ramet.dev/restore-from": status?.checkpointId ?? "" } };
  await cluster.create({
    apiVersion,
    kind: "SandboxClaim",
    metadata: { name: "d", namespace: "t" },
    spec: { templateName: "set", envVars: { TASK: "43", ...ofClient("warm") }, ...from },
  });
  await expect.poll(() => findClaim("d")?.phase, { timeout: 60_000 }).toBe("Completed");
  const [name = ""] = findClaim("d")?.ramet?.sandboxes ?? [];
  expect(name).toBe(before?.metadata.name);
  const after = await cluster.sandbox(`t/${name}`, (now) => now.status?.ramet?.restoredFrom === status?.checkpointId);
  // A claim does not wait for a list of the programs, which nobody has used.
  expect(after.status?.ramet?.rollback).toEqual({ request: expect.any(String) as string });
  expect(after.status?.podInfo?.podUID).toBe(before?.status?.podInfo?.podUID);
  expect(await output(name, "echo $TASK; cat /state; hostname")).toBe(`43\nwarmed\n${name}`);
  expect(await output(name, marks)).toBe(`true ${await clientId(name)} warm`);

  await cluster.create({
    apiVersion,
    kind: "SandboxClaim",
    metadata: { name: "e", namespace: "t" },
    spec: { templateName: "set", annotations: { "ramet.dev/restore-from": "nothing-there" } },
  });
  await expect.poll(() => findClaim("e")?.phase, { timeout: 60_000 }).toBe("Completed");
  expect(findClaim("e")).toMatchObject({ claimedReplicas: 0 });
  expect(findClaim("e")?.message).toContain("No checkpoint in the namespace t has the id nothing-there");
});

it("completes a claim with a restore without memory when the probes have found that the program can be used", async () => {
  const slow = { templateName: "slow" };
  await cluster.create({
    apiVersion,
    kind: "SandboxSet",
    metadata: { name: "slow", namespace: "t" },
    spec: { replicas: 2, template: slowTemplate },
  });
  const claim = (name: string, more: object = {}) =>
    cluster.create({
      apiVersion,
      kind: "SandboxClaim",
      metadata: { name, namespace: "t" },
      spec: { ...slow, ...more },
    });
  await claim("f", { createOnNoStock: false });
  await expect.poll(() => findClaim("f")?.phase, { timeout: 60_000 }).toBe("Completed");
  const [source = ""] = findClaim("f")?.ramet?.sandboxes ?? [];
  const spec = { sandboxName: source, persistentContents: ["filesystem"] };
  await cluster.create({ apiVersion, kind: "Checkpoint", metadata: { name: "files", namespace: "t" }, spec });
  const { status } = await cluster.checkpoint("t/files", ({ status: now }) => now?.phase === "Succeeded");
  const from = { "ramet.dev/restore-from": status?.checkpointId ?? "" };
  await claim("g", { createOnNoStock: false, annotations: from });
  await expect.poll(() => findClaim("g")?.phase, { timeout: 60_000 }).toBe("Completed");
  const [name = ""] = findClaim("g")?.ramet?.sandboxes ?? [];
  const restored = await cluster.seen.sandboxes.resource.get({ namespace: "t", name });
  expect(restored.status?.ramet?.restoredFrom).toBe(status?.checkpointId);
  expect((await fetch(`http://${restored.status?.sandboxIp ?? ""}:${counterPort}/`)).ok).toBe(true);
});
