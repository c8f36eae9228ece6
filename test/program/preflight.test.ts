import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import { KubeClient } from "../../src/kube/kube-client.ts";
import { coreResources } from "../../src/kube/resource-ref.ts";
import { startControlPlane, type TestControlPlane } from "../setup/control-plane.ts";
import { openProgram, type ProgramWorld } from "./program-world.ts";

/** Previews of `RametRuntime` on a real API server whose Node object is not suitable. No kubelet runs. */
let plane: TestControlPlane;
let world: ProgramWorld;
let client: KubeClient;

beforeAll(async () => {
  plane = await startControlPlane({ apis: "all" });
  world = await openProgram("test/program/programs/install", { kubeconfig: plane.kubeconfigPath });
  client = new KubeClient(plane.connection);
  await createOldNode("old");
  const enforce = { "pod-security.kubernetes.io/enforce": "restricted" };
  await client.resource(coreResources.namespaces).mergePatch({ name: "default" }, { metadata: { labels: enforce } });
});

afterAll(async () => {
  await client.close();
  await world.remove();
  await plane.stop();
});

it("warns in a preview of what ramet doctor finds, with what to do, and previews the installation", async () => {
  const preview = await world.engine.preview();
  expect(preview.succeeded, preview.text).toBe(true);
  expect(preview.text).toContain("No node reports user namespaces (old)");
  expect(preview.text).toMatch(/The kubelet has no image volumes on old\. Upgrade these nodes/);
  expect(preview.text).toMatch(
    /The container runtime cannot mount image volumes on old: containerd:\/\/1\.7\.27\. Use nodes/,
  );
  expect(preview.text).toMatch(
    /enforces the Pod Security level restricted, which refuses cells\. Let an administrator run/,
  );
  expect(preview.steps.length).toBeGreaterThan(10);
});

it("warns beside other controllers of their absence only, because no cells run there", async () => {
  const store = 'store: { directory: "/var/lib/ramet", claim: "checkpoints" },';
  const cell = 'cellImage: "registry.example/ramet-cell:1",';
  await world.edit(store, 'mode: "beside",');
  await world.edit(cell, "");
  const { text } = await world.engine.preview();
  expect(text).toContain("No controller of OpenKruise Agents or ACS was found in this cluster");
  expect(text).not.toMatch(/image volumes|user namespaces|Pod Security/);
  await world.edit('mode: "beside",', `${cell} ${store}`);
});

it("does not warn during an update, whose preview did", async () => {
  const { text } = await world.engine.up();
  expect(text).not.toMatch(/image volumes|user namespaces|Pod Security/);
});

it("refuses to continue in another cluster, where Pulumi's Kubernetes provider would report its objects as unchanged", async () => {
  const other = await startControlPlane({ apis: "all" });
  onTestFinished(() => other.stop());
  const preview = await world.engine.with({ kubeconfig: other.kubeconfigPath }).preview();
  expect(preview.succeeded).toBe(false);
  expect(preview.text).toMatch(/kube-system is in another cluster: its state is of the cluster .*Select that cluster/s);
  expect((await world.engine.preview()).succeeded).toBe(true);
});

async function createOldNode(name: string): Promise<void> {
  const nodes = client.resource(coreResources.nodes);
  await nodes.create({ apiVersion: "v1", kind: "Node", metadata: { name } });
  const status = {
    conditions: [{ type: "Ready", status: "True", reason: "KubeletReady", message: "kubelet is posting ready status" }],
    nodeInfo: {
      architecture: "amd64",
      bootID: "",
      containerRuntimeVersion: "containerd://1.7.27",
      kernelVersion: "5.15.0",
      kubeProxyVersion: "",
      kubeletVersion: "v1.32.4",
      machineID: "",
      operatingSystem: "linux",
      osImage: "",
      systemUUID: "",
    },
    runtimeHandlers: [{ name: "", features: { userNamespaces: false } }],
  };
  await nodes.mergePatch({ name }, { status }, { subresource: "status" });
}
