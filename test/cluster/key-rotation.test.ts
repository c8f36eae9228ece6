import { afterAll, beforeAll, expect, it } from "vitest";
import { rotationConfigMap, rotationEntry } from "../../src/api/names/key-rotation.ts";
import { type KeyPower, gatewayKeySecret, nextSecretOf, systemNamespace } from "../../src/api/names/system-names.ts";
import { ClusterKeys, clusterCredentials } from "../../src/backends/cluster-keys.ts";
import { RametError } from "../../src/base/errors.ts";
import { type CellAddress, CellClient } from "../../src/cell/client/cell-client.ts";
import { type CellKey, cellKeyFromPem } from "../../src/cell/client/cell-token.ts";
import { runProgram } from "../../src/cli/program.ts";
import { coreResources } from "../../src/kube/resource-ref.ts";
import { counterPort, counterScript } from "../setup/counter.ts";
import { type RunningGateway, accountToken, allowToReach, ask, startGateway } from "../setup/gateway.ts";
import { memoryIo } from "../setup/memory-io.ts";
import { type Cluster, openCluster } from "./controllers-cluster.ts";
import { realNode } from "./controllers-real-node.ts";
import { count, counterTemplate as template } from "./counter.ts";

/** Rotates the keys of a real cluster whose sandbox runs on real gVisor. */
let cluster: Cluster;
let gateway: RunningGateway;
let token: string;
let cell: CellAddress;
let podUid: string | undefined;
let counted = 0;

beforeAll(async () => {
  cluster = await openCluster({
    startNode: realNode({ commands: { counter: ["python3", "-c", counterScript] } }),
    keyRotation: { pauseMilliseconds: 100, settleMilliseconds: 0 },
  });
  await cluster.namespace("t");
  gateway = await startGateway(cluster.client);
  token = await accountToken(cluster.client, { namespace: "t", name: "agent" });
  await allowToReach(cluster.client, "t", { namespace: "t", name: "agent" });
  const metadata = { name: "a", namespace: "t" };
  await cluster.create({ apiVersion: "agents.kruise.io/v1alpha1", kind: "Sandbox", metadata, spec: { template } });
  const { metadata: made, status } = await cluster.sandbox("t/a", (one) => one.status?.phase === "Running");
  cell = { ip: status?.sandboxIp ?? "", sandboxUid: made.uid, cellKey: status?.ramet?.cellKey };
  podUid = status?.podInfo?.podUID;
  counted = await count(cluster, "a");
});
afterAll(async () => {
  gateway.end();
  await gateway.ended;
  await cluster.close();
});

async function ramet(...args: string[]) {
  const io = memoryIo({ environment: { HOME: "/nowhere", KUBECONFIG: cluster.kubeconfigPath } });
  expect([await runProgram(io, args), io.written("stderr")]).toEqual([0, expect.anything()]);
  return JSON.parse(io.written("stdout")) as { items: { key: string; step: string; waiting: number }[] };
}

const rotate = (power: KeyPower) => ramet("keys", "rotate", power, "--timeout", "60s", "-o", "json");

async function keyOfGateways(): Promise<CellKey> {
  const at = { namespace: systemNamespace, name: gatewayKeySecret };
  const { data } = (await cluster.client.resource(coreResources.secrets).get(at)) as unknown as {
    data: { [name: string]: string };
  };
  return cellKeyFromPem(Buffer.from(data["private-key.pem"] ?? "", "base64").toString("utf8"));
}

/** The code of the cell's refusal of a token that was signed with this key, for an operation of the key's power. */
async function verdict(key: CellKey, power: KeyPower): Promise<string> {
  const client = new CellClient(key);
  const call =
    power === "cells" ? client.state(cell) : client.dial(cell, counterPort).then((stream) => stream.destroy());
  const found = await call.then(
    () => "accepted",
    (error: unknown) => RametError.from(error).code,
  );
  client.close();
  return found;
}

const keyOf = async (power: KeyPower): Promise<CellKey> =>
  power === "cells" ? (await clusterCredentials(cluster.client)).key : keyOfGateways();

/** The sandbox was not restarted: its process has its memory. */
async function expectSameSandbox(): Promise<void> {
  const { status } = await cluster.seen.sandboxes.resource.get({ namespace: "t", name: "a" });
  expect(status).toMatchObject({ phase: "Running", podInfo: { podUID: podUid }, ramet: { generation: 1 } });
  const answer = await ask(gateway, { id: "t--a", port: counterPort }, { token });
  expect(answer).toMatchObject({ status: 200, text: String(counted + 1) });
  counted += 1;
}

it.each<KeyPower>(["gateways", "cells"])(
  "rotates the key of the %s while a sandbox runs and is used",
  async (power) => {
    const before = await keyOf(power);
    const abort = new AbortController();
    const statuses = new Set<number>();
    const user = (async () => {
      while (!abort.signal.aborted) {
        statuses.add((await ask(gateway, { id: "t--a", port: counterPort }, { token })).status);
        counted += 1;
      }
    })();
    const { items } = await rotate(power);
    abort.abort();
    await user;
    expect(items).toEqual([expect.objectContaining({ key: power, step: "done", waiting: 0 })]);
    expect([...statuses]).toEqual([200]);
    const after = await keyOf(power);
    expect(after.publicKey).not.toBe(before.publicKey);
    expect([await verdict(before, power), await verdict(after, power)]).toEqual(["Unauthorized", "accepted"]);
    const next = { namespace: systemNamespace, name: nextSecretOf(power) };
    expect(await cluster.client.resource(coreResources.secrets).find(next)).toBeUndefined();
    await expectSameSandbox();
  },
);

it("captures a sandbox and starts another one after the rotation", async () => {
  const metadata = { name: "a-1", namespace: "t" };
  const apiVersion = "agents.kruise.io/v1alpha1";
  await cluster.create({ apiVersion, kind: "Checkpoint", metadata, spec: { podName: "a" } });
  const { status } = await cluster.checkpoint("t/a-1", (one) => one.status?.phase === "Succeeded");
  const annotations = { "ramet.dev/restore-from": status?.checkpointId ?? "" };
  await cluster.create({ apiVersion, kind: "Sandbox", metadata: { name: "b", namespace: "t", annotations }, spec: {} });
  await cluster.sandbox("t/b", (one) => one.status?.phase === "Running");
  expect(await count(cluster, "b")).toBe(counted + 1);
  await cluster.seen.sandboxes.resource.delete({ namespace: "t", name: "b" });
  await cluster.untilDeleted("pods", "t/b");
});

const secrets = () => cluster.client.resource(coreResources.secrets);

it.each<[string, (keys: ClusterKeys) => Promise<unknown>]>([
  ["the next key was created", (keys) => keys.begin("cells")],
  [
    "the first key was deleted",
    async (keys) => {
      await keys.begin("cells");
      await tell(keys);
      await secrets().delete({ namespace: systemNamespace, name: "ramet-cell-key" });
    },
  ],
  [
    "the next key signs",
    async (keys) => {
      await keys.begin("cells");
      await tell(keys);
      await keys.advance("cells");
    },
  ],
  [
    "the cell has forgotten the previous key",
    async (keys) => {
      await keys.begin("cells");
      await tell(keys);
      await keys.advance("cells");
      await tell(keys);
    },
  ],
])("finishes a rotation if the controller stopped when %s", async (_, until) => {
  await cluster.stopControllers();
  const before = await keyOf("cells");
  const request = `request-${counted}`;
  const data = { [rotationEntry("cells", "request")]: request };
  await cluster.client.resource(coreResources.configMaps).mergePatch(rotationConfigMap, { data });
  await until(await ClusterKeys.open(cluster.client));
  await cluster.startControllers();
  const state = async () => (await ramet("keys", "get", "-o", "json")).items[0];
  await expect.poll(state).toMatchObject({ step: "done", request, waiting: 0 });
  expect([await verdict(before, "cells"), await verdict(await keyOf("cells"), "cells")]).toEqual([
    "Unauthorized",
    "accepted",
  ]);
  await expectSameSandbox();
});

/** Gives the cell the keys, as the controller does. */
async function tell(keys: ClusterKeys): Promise<void> {
  const client = new CellClient(keys.cellKey);
  await client.setKeys(cell, { keys: keys.sets });
  client.close();
}
