import { rm } from "node:fs/promises";
import { afterAll, beforeAll, expect, it } from "vitest";
import { Checkpoint } from "../../src/api/kinds/checkpoint.ts";
import { Sandbox } from "../../src/api/kinds/sandbox.ts";
import { isPodReady } from "../../src/api/schema/pod.ts";
import { sandboxResources } from "../../src/controllers/cluster/resources.ts";
import { builtPrograms } from "../setup/built-package.ts";
import { copyOfGuest, otherGuest } from "../setup/other-engine.ts";
import { TestCluster } from "./local-cluster.ts";

/** An upgrade of a local cluster to another guest, after which the earlier guest is gone from the machine. */
let cluster: TestCluster;
beforeAll(async () => {
  cluster = await TestCluster.create();
}, 400_000);
afterAll(() => cluster.remove());

const code = "import time\ni = 0\nwhile True:\n print('line', i); i += 1; time.sleep(0.1)";

it("clones a checkpoint of the earlier engine after the upgrade", async () => {
  const guest = await copyOfGuest();
  await cluster.up(builtPrograms.part, { "ramet-guest": guest });
  await cluster.createSandbox("a", code);
  await cluster.untilPod("a", (pod) => pod !== undefined && isPodReady(pod));
  const create = async (kind: "Checkpoint" | "Sandbox", name: string, more: object): Promise<void> => {
    const ref = kind === "Sandbox" ? sandboxResources.sandboxes : sandboxResources.checkpoints;
    const client = await cluster.client();
    await client
      .resource(ref)
      .create({ apiVersion: "agents.kruise.io/v1alpha1", kind, metadata: { name, namespace: "default" }, ...more });
  };
  await create("Checkpoint", "a-1", { spec: { sandboxName: "a" } });
  const checkpoint = await cluster.until(
    sandboxResources.checkpoints,
    { namespace: "default", name: "a-1" },
    (value) => Checkpoint.parse(value),
    (one) => one?.status?.phase === "Succeeded",
  );
  const { checkpointId = "", ramet } = checkpoint?.status ?? {};

  await cluster.down();
  await rm(guest);
  await cluster.up(builtPrograms.part, { "ramet-guest": await otherGuest() });
  const annotations = { "ramet.dev/restore-from": checkpointId };
  await create("Sandbox", "b", { metadata: { name: "b", namespace: "default", annotations }, spec: {} });
  const { status } =
    (await cluster.until(
      sandboxResources.sandboxes,
      { namespace: "default", name: "b" },
      (value) => Sandbox.parse(value),
      (one) => one?.status?.phase === "Running" || one?.status?.phase === "Failed",
    )) ?? {};
  expect(status).toMatchObject({ phase: "Running", ramet: { engine: ramet?.engine } });
  const pod = await cluster.untilPod("b", (one) => one !== undefined);
  expect(pod?.spec.containers[0]?.image).toBe(`ramet-cell:${ramet?.engine ?? ""}`);
  await cluster.createSandbox("c", code);
  const fresh = await cluster.untilPod("c", (one) => one !== undefined && isPodReady(one));
  expect(fresh?.spec.containers[0]?.image).not.toBe(pod?.spec.containers[0]?.image);
});
