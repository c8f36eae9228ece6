import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { expect } from "vitest";
import { sandboxKind } from "../../src/api/kinds/sandbox.ts";
import { guestClientPort } from "../../src/api/wire/cell-api.ts";
import { clusterCredentials } from "../../src/backends/cluster-keys.ts";
import { systemClock } from "../../src/base/clock.ts";
import { CellClient } from "../../src/cell/client/cell-client.ts";
import { containerUser, GuestClient } from "../../src/cell/client/guest-client.ts";
import { KubeClient } from "../../src/kube/kube-client.ts";
import { connectionFromKubeconfig } from "../../src/kube/kubeconfig.ts";
import { type KubeObject, parseObject } from "../../src/kube/object.ts";
import type { ResourceClient } from "../../src/kube/resource-client.ts";
import { coreResources } from "../../src/kube/resource-ref.ts";
import { imageNames } from "./images.ts";
import { cellSeccompProfile, type ClusterSetting, type SecondNode, startSecondNode } from "./node.ts";
import { countingProgram, Witness } from "./witness.ts";
import { controllers, makeStoreSecret, openWorld, type World } from "./world.ts";

/** Set by `openTwoNodes`. */
export let world: World;
export let nodeB: SecondNode;
export let client: KubeClient;
export const setting = JSON.parse(process.env["RAMET_TEST_KUBELET"] ?? "{}") as ClusterSetting;
export const witness = new Witness();

/** Starts a second node and the controllers, and gives the template `counting` to the namespace. */
export async function openTwoNodes(): Promise<void> {
  world = await openWorld();
  const connection = await connectionFromKubeconfig({ path: world.kubeconfig, clock: systemClock });
  client = new KubeClient(connection, { clock: systemClock });
  await witness.open();
  nodeB = await startSecondNode(setting);
  const directory = join(world.directory, "kustomization");
  const address = `s3://checkpoints/two-nodes?endpoint=${encodeURIComponent(world.s3.endpoint)}&allow-insecure=true`;
  const images = ["--image", imageNames.controller, "--cell-image", imageNames.cell];
  const cells = ["--cell-seccomp-profile", cellSeccompProfile, "--cell-user-namespaces", "never"];
  const store = ["--store", address, "--store-secret", "s3"];
  await world.ramet("manifests", ...images, ...cells, ...store, "--egress-allow", witness.address, "--out", directory);
  await world.kubectl("apply", "-f", join(directory, "namespace.yaml"));
  await makeStoreSecret(world);
  await world.kubectl("apply", "-k", directory);
  await world.kubectl("rollout", "status", "-n", "ramet-system", "deployment/ramet-controller", "--timeout=180s");
  await world.apply(JSON.stringify(template()));
}

export async function closeTwoNodes(): Promise<void> {
  await world.kubectl("uncordon", "node-a");
  await world.kubectl("delete", "sandboxset", "drained", "--ignore-not-found");
  await world.kubectl("delete", "sandbox", "--all", "--wait=true");
  await world.kubectl("delete", "-f", join(world.directory, "kustomization", "deployment.yaml"));
  await world.kubectl("delete", "node", "node-b");
  await nodeB.stop();
  witness.close();
  await client.close();
}

export const program = () => countingProgram(witness.address);
interface TemplateOptions {
  name?: string;
  annotations?: Record<string, string>;
  resources?: { limits: Record<string, string> };
}

/** Of a sandbox that counts for the witness. */
export const template = ({ name = "counting", annotations = {}, resources }: TemplateOptions = {}) => ({
  apiVersion: "agents.kruise.io/v1alpha1",
  kind: "SandboxTemplate",
  metadata: { name, namespace: "default" },
  spec: {
    template: {
      metadata: { annotations },
      spec: {
        // A busy machine can take long.
        terminationGracePeriodSeconds: 120,
        containers: [{ name: "sandbox", image: imageNames.python, command: ["python3", "-c", program()], resources }],
      },
    },
  },
});

export const long = { timeout: 150_000, interval: 250 };
export const sandboxes = ["a", "b", "c"] as const;

/** As `kubectl get -o jsonpath` prints it. Read without a program, because hundreds would slow down what is measured. */
const fieldOf = async <T extends KubeObject>(resource: ResourceClient<T>, name: string, path: string) => {
  const at = (value: unknown, key: string) => (value as Record<string, unknown> | undefined)?.[key];
  const found = await resource.find({ namespace: "default", name });
  const value = path.slice(1).split(".").reduce<unknown>(at, found) ?? "";
  return typeof value === "string" ? value : JSON.stringify(value);
};
export const field = (name: string, path: string) => fieldOf(client.of(sandboxKind), name, path);
export const nodeOf = (name: string) =>
  fieldOf(client.resource(coreResources.pods, parseObject), name, ".spec.nodeName");
export const podOf = (name: string) => fieldOf(client.resource(coreResources.pods, parseObject), name, ".metadata.uid");
/** What a client knows of a sandbox. */
export const identity = async (name: string) => {
  const read = await world.inSandbox(name, "cat /run/ramet/identity.json");
  const { sandboxId, hostname } = JSON.parse(read) as Record<string, unknown>;
  return { uid: await field(name, ".metadata.uid"), sandboxId, hostname };
};

/** The file of the program, with an access token that a client has. */
export async function fileWith(accessToken: string, name: string): Promise<number> {
  const { key } = await clusterCredentials(client);
  const cells = new CellClient(key);
  const [uid, ip] = [await field(name, ".metadata.uid"), await field(name, ".status.sandboxIp")];
  const dial = () => cells.dial({ ip, sandboxUid: uid }, guestClientPort);
  try {
    return Number(
      await text(await new GuestClient({ dial, accessToken, user: containerUser }).readFile("/root/count")),
    );
  } finally {
    cells.close();
  }
}

/** Each test begins with the cordons that it needs, whatever the one before has left. */
export async function cordonOnly(...cordoned: string[]): Promise<void> {
  for (const node of ["node-a", "node-b"]) {
    await world.kubectl(cordoned.includes(node) ? "cordon" : "uncordon", node);
  }
}

/** As the documentation says. The controllers stay with `sandboxesOnly`. */
export const drain = (node: string, ...more: string[]) =>
  world.kubectl("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=150s", ...more);
export const sandboxesOnly = "--pod-selector=agents.kruise.io/sandbox-name";

export async function evict(name: string): Promise<void> {
  const path = join(world.directory, `eviction-${name}.json`);
  await writeFile(
    path,
    JSON.stringify({ apiVersion: "policy/v1", kind: "Eviction", metadata: { name, namespace: "default" } }),
  );
  await world.kubectl("create", "--raw", `/api/v1/namespaces/default/pods/${name}/eviction`, "-f", path);
}

/** Until it counts on in another Pod. */
export async function untilMoved(name: string, before: string): Promise<void> {
  await expect
    .poll(async () => [await field(name, ".status.podInfo.podUID"), await field(name, ".status.phase")], long)
    .toEqual([expect.not.stringMatching(before), "Running"]);
  await untilCounting(name);
}

export async function untilCounting(name: string): Promise<void> {
  const count = witness.count(name);
  await expect.poll(() => witness.count(name), long).toBeGreaterThan(count + 2);
}

/** Has all controllers run on one node. */
export async function moveControllers(node: string): Promise<void> {
  await cordonOnly(node === "node-a" ? "node-b" : "node-a");
  await world.kubectl("delete", "pods", ...controllers, "--wait=true");
  await world.kubectl("rollout", "status", "-n", "ramet-system", "deployment/ramet-controller", "--timeout=180s");
}

const slots = (count: number) => ({ limits: { "test.ramet.dev/slot": `${count}` } });

/** Makes all sandboxes again, for which each node has a slot. */
export async function startSlotted(): Promise<void> {
  const path = (list: string) => ({
    op: "add",
    path: `/status/${list}/test.ramet.dev~1slot`,
    value: `${sandboxes.length}`,
  });
  const patch = JSON.stringify([path("capacity"), path("allocatable")]);
  for (const node of ["node-a", "node-b"])
    await world.kubectl("patch", "node", node, "--subresource=status", "--type=json", "-p", patch);
  const metadata = { name: "preempting" };
  await world.apply(
    JSON.stringify({ apiVersion: "scheduling.k8s.io/v1", kind: "PriorityClass", metadata, value: 1_000 }),
  );
  await world.apply(JSON.stringify(template({ name: "slotted", resources: slots(1) })));
  await world.kubectl("delete", "sandbox", "--all", "--wait=true");
  for (const name of sandboxes) {
    witness.forget(name);
    await world.ramet("sandbox", "create", "--template", "slotted", "--name", name);
  }
  for (const name of sandboxes) await untilCounting(name);
}

/** Creates a Pod that needs the slots of all sandboxes on a node, until it runs there. */
export async function preempt(node: string): Promise<void> {
  const spec = {
    priorityClassName: "preempting",
    terminationGracePeriodSeconds: 1,
    nodeSelector: { "kubernetes.io/hostname": node },
    containers: [
      { name: "main", image: imageNames.python, command: ["sleep", "3600"], resources: slots(sandboxes.length) },
    ],
  };
  const metadata = { name: "preempting", namespace: "default" };
  await world.apply(JSON.stringify({ apiVersion: "v1", kind: "Pod", metadata, spec }));
  await world.kubectl("wait", "pod/preempting", "--for=condition=Ready", "--timeout=150s");
}
