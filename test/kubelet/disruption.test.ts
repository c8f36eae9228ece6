import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { cellSeccompProfile } from "./node.ts";
import { imageNames } from "./images.ts";
import { makeStoreSecret, openWorld, type World } from "./world.ts";

/** Tests with a real kubelet that a sandbox survives the end of its Pod. */
let world: World;
let directory: string;

beforeAll(async () => {
  world = await openWorld();
  directory = join(world.directory, "kustomization");
  const address = `s3://checkpoints/disruption?endpoint=${encodeURIComponent(world.s3.endpoint)}&allow-insecure=true`;
  const images = ["--image", imageNames.controller, "--cell-image", imageNames.cell];
  const cells = ["--cell-seccomp-profile", cellSeccompProfile, "--cell-user-namespaces", "never"];
  await world.ramet("manifests", ...images, ...cells, "--store", address, "--store-secret", "s3", "--out", directory);
  await world.kubectl("apply", "-f", join(directory, "namespace.yaml"));
  await makeStoreSecret(world);
  await world.kubectl("apply", "-k", directory);
  await world.kubectl("rollout", "status", "-n", "ramet-system", "deployment/ramet-controller", "--timeout=120s");
  await world.apply(JSON.stringify(template("disrupted")));
});
afterAll(async () => {
  await world.kubectl("delete", "sandbox", "--all", "--wait=true");
  await world.kubectl("delete", "-f", join(directory, "deployment.yaml"));
});

/** Writes a text that only its memory has, as often as it is removed. */
const program = `import os, secrets, time
token = secrets.token_hex(8)
while True:
    if not os.path.exists("/tmp/token"): open("/tmp/token", "w").write(token)
    time.sleep(0.05)`;
const container = { name: "sandbox", image: imageNames.python, command: ["python3", "-c", program] };
const template = (name: string, more: object = {}) => ({
  apiVersion: "agents.kruise.io/v1alpha1",
  kind: "SandboxTemplate",
  metadata: { name, namespace: "default" },
  spec: { template: { spec: { containers: [{ ...container, ...more }] } } },
});

const long = { timeout: 90_000, interval: 100 };
const token = (name: string) =>
  world.inSandbox(name, "rm -f /tmp/token; until [ -s /tmp/token ]; do sleep 0.05; done; cat /tmp/token");
const field = (name: string, path: string) => world.kubectl("get", "sandbox", name, "-o", `jsonpath={${path}}`);

/** Until it runs in another Pod. */
async function untilMoved(name: string, before: string): Promise<void> {
  await expect
    .poll(async () => [await field(name, ".status.podInfo.podUID"), await field(name, ".status.phase")], long)
    .toEqual([expect.not.stringMatching(before), "Running"]);
}

it("continues a sandbox that the eviction API ends, and one whose Pod is deleted, with memory and files", async () => {
  await world.ramet("sandbox", "create", "--template", "disrupted", "--name", "a");
  const kept = await token("a");
  await world.inSandbox("a", "echo file > /root/file");
  let before = await field("a", ".status.podInfo.podUID");
  const eviction = join(world.directory, "eviction.json");
  const metadata = { name: "a", namespace: "default" };
  await writeFile(eviction, JSON.stringify({ apiVersion: "policy/v1", kind: "Eviction", metadata }));
  await world.kubectl("create", "--raw", "/api/v1/namespaces/default/pods/a/eviction", "-f", eviction);
  await untilMoved("a", before);
  expect(await field("a", ".status.ramet.disruption.cause")).toBe("Evicted");
  expect(await field("a", ".status.ramet.disruption.outcome")).toBe("Migrated");
  expect(await token("a")).toBe(kept);
  expect(await world.inSandbox("a", "cat /root/file")).toBe("file");

  before = await field("a", ".status.podInfo.podUID");
  await world.kubectl("delete", "pod", "a", "--wait=false");
  await untilMoved("a", before);
  expect(await field("a", ".status.ramet.disruption.cause")).toBe("PodDeleted");
  expect(await token("a")).toBe(kept);
  expect(await world.ramet("explain", "sandbox/a")).toContain("It continued in another Pod");
});

it("continues a sandbox that a Pod with a higher priority preempts, with its memory, as soon as there is room again", async () => {
  const path = (list: string) => ({ op: "add", path: `/status/${list}/test.ramet.dev~1slot`, value: "1" });
  const slot = JSON.stringify([path("capacity"), path("allocatable")]);
  await world.kubectl("patch", "node", "node-a", "--subresource=status", "--type=json", "-p", slot);
  const resources = { limits: { "test.ramet.dev/slot": "1" } };
  await world.apply(JSON.stringify(template("preempted", { resources })));
  await world.ramet("sandbox", "create", "--template", "preempted", "--name", "b");
  const [kept, before] = [await token("b"), await field("b", ".status.podInfo.podUID")];

  const metadata = { name: "preempting" };
  await world.apply(
    JSON.stringify({ apiVersion: "scheduling.k8s.io/v1", kind: "PriorityClass", metadata, value: 1_000 }),
  );
  const spec = {
    priorityClassName: "preempting",
    terminationGracePeriodSeconds: 1,
    containers: [{ name: "main", image: imageNames.python, command: ["sleep", "3600"], resources }],
  };
  await world.apply(
    JSON.stringify({ apiVersion: "v1", kind: "Pod", metadata: { ...metadata, namespace: "default" }, spec }),
  );
  await world.kubectl("wait", "pod/preempting", "--for=condition=Ready", "--timeout=90s");
  expect(await field("b", ".status.ramet.disruption.cause")).toBe("Preempted");
  await world.kubectl("delete", "pod", "preempting");
  await untilMoved("b", before);
  expect(await field("b", ".status.ramet.disruption.outcome")).toBe("Migrated");
  expect(await token("b")).toBe(kept);
});
