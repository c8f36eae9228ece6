import { join } from "node:path";
import { Sandbox, SandboxNotFoundError, Template } from "e2b";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import * as z from "zod";
import { account } from "../setup/registry.ts";
import { cellSeccompProfile } from "./node.ts";
import { imageNames, pushImage, registryImage } from "./images.ts";
import { clientApis, gateways, makeStoreSecret, openWorld, type World } from "./world.ts";

const PodList = z.object({
  items: z.array(
    z.object({
      metadata: z.object({ deletionTimestamp: z.string().optional() }),
      status: z.object({ phase: z.string(), podIP: z.string().optional() }),
    }),
  ),
});

const long = { timeout: 90_000, interval: 250 };

/**
 * Tests an installed client API with E2B's SDK for JavaScript, unmodified: Pods of two replicas with their own service account, and
 * sandboxes in Pods. The cluster has no DNS and no kube-proxy, so clients use the addresses of Pods, and servers do not reach each
 * other by the names of their Services: not tested are metrics, logs, resumes by traffic, and the API behind the gateway.
 */
describe("an installed client API", () => {
  let world: World;
  let directory: string;
  let connections: { apiKey: string; apiUrl: string; sandboxUrl: string }[];

  beforeAll(async () => {
    world = await openWorld();
    directory = join(world.directory, "kustomization");
    const { kubectl, ramet } = world;
    const address = `s3://checkpoints/e2b?endpoint=${encodeURIComponent(world.s3.endpoint)}&allow-insecure=true`;
    const registries = Object.values(world.registries).flatMap((host) => ["--insecure-registry", host]);
    const images = ["--image", imageNames.controller, "--cell-image", imageNames.cell, ...registries];
    const store = ["--store", address, "--store-secret", "s3"];
    const servers = ["--cell-seccomp-profile", cellSeccompProfile, "--client-api-replicas", "2"];
    await ramet("manifests", ...images, ...store, ...servers, "--out", directory);
    await kubectl("apply", "-f", join(directory, "namespace.yaml"));
    await makeStoreSecret(world);
    await kubectl("apply", "-k", directory);
    for (const name of ["ramet-controller", "ramet-gateway", "ramet-client-api"])
      await kubectl("rollout", "status", "-n", "ramet-system", `deployment/${name}`, "--timeout=180s");
    await world.apply(JSON.stringify(template));
    const apiKey = await ramet("key", "create", "agent", "--service-account", "agent", "--create-service-account");
    const [gateway = ""] = await addresses(gateways);
    connections = (await addresses(clientApis)).map((api) => ({
      apiKey,
      apiUrl: `http://${api}:8081`,
      sandboxUrl: `http://${gateway}:8080`,
    }));
  }, 600_000);
  afterAll(async () => {
    await world.kubectl("delete", "sandbox,checkpoint,namedsnapshot", "--all", "--wait=true");
    await world.kubectl("delete", "-f", join(directory, "deployment.yaml"));
  });

  async function addresses(servers: string[]): Promise<string[]> {
    const { items } = PodList.parse(JSON.parse(await world.kubectl("get", "pods", ...servers, "-o", "json")));
    // A replaced Pod can still be Running while it is being deleted.
    const serving = items.filter(({ metadata, status }) => !metadata.deletionTimestamp && status.phase === "Running");
    return serving.map(({ status }) => status.podIP ?? "").sort();
  }

  it("creates a sandbox, runs commands, pauses and connects, through either replica", async () => {
    const [first, second] = connections;
    const sandbox = await Sandbox.create("base", { ...first, envs: { GREETING: "hello" }, timeoutMs: 600_000 });
    expect((await sandbox.commands.run("echo $GREETING; uname -r")).stdout).toMatch(/^hello\n\S*gvisor\n$/);
    await sandbox.files.write("/tmp/kept", "text");
    await sandbox.pause();
    const connected = await Sandbox.connect(sandbox.sandboxId, second);
    expect(await connected.files.read("/tmp/kept")).toBe("text");
    expect((await connected.getInfo()).state).toBe("running");
    expect(await connected.kill()).toBe(true);
    await expect(sandbox.getInfo()).rejects.toThrow(SandboxNotFoundError);
  });

  it("creates clones from snapshots, which continue with their memory", async () => {
    const [first, second] = connections;
    const sandbox = await Sandbox.create("base", { ...first, timeoutMs: 600_000 });
    await sandbox.commands.run("sh -c 'n=0; while :; do n=$((n+1)); echo $n >/tmp/n; sleep 0.1; done'", {
      background: true,
    });
    const counted = async (from: Sandbox) => Number(await from.files.read("/tmp/n"));
    await expect.poll(() => counted(sandbox).catch(() => 0), long).toBeGreaterThan(20);
    const { snapshotId } = await sandbox.createSnapshot();
    const clone = await Sandbox.create(snapshotId, { ...second, timeoutMs: 600_000 });
    const before = await counted(clone);
    expect(before).toBeGreaterThan(20);
    await expect.poll(() => counted(clone), long).toBeGreaterThan(before);
    const named = await sandbox.createSnapshot({ name: "counting" });
    const another = await Sandbox.create(named.snapshotId, { ...second, timeoutMs: 600_000 });
    expect(await counted(another)).toBeGreaterThan(20);
    for (const each of [sandbox, clone, another]) expect(await each.kill()).toBe(true);
    expect(await Sandbox.deleteSnapshot(snapshotId, first)).toBe(true);
  });

  it("builds a template from an image of a registry with a password", async () => {
    const [first] = connections;
    await pushImage(world.registries.open, "private");
    const image = `${world.registries.protected}/${registryImage.repository}:private`;
    await Template.build(Template().fromImage(image, account).runCmd("echo built >/tmp/built"), "private", first);
    const sandbox = await Sandbox.create("private", { ...first, timeoutMs: 600_000 });
    expect(await sandbox.files.read("/tmp/built")).toBe("built\n");
    expect(await sandbox.kill()).toBe(true);
  });

  it("reads with its service account no Secret but the key of guests, and needs no right that it does not have", async () => {
    const account = "system:serviceaccount:ramet-system:ramet-client-api";
    const can = (...what: string[]) =>
      world.kubectl("auth", "can-i", ...what, "--as", account).then(
        () => true,
        () => false,
      );
    expect(await can("get", "secrets/ramet-guest-key", "-n", "ramet-system")).toBe(true);
    for (const what of [
      ["get", "secrets/s3", "-n", "ramet-system"],
      ["list", "secrets", "-n", "ramet-system"],
      ["get", "secrets", "-n", "default"],
      ["create", "pods", "-n", "default"],
      ["create", "pods/exec", "-n", "default"],
      ["create", "rolebindings", "-n", "default"],
      ["create", "serviceaccounts/token", "-n", "default"],
      ["impersonate", "users"],
    ])
      expect([what.join(" "), await can(...what)]).toEqual([what.join(" "), false]);
    const logs = await world.kubectl("logs", ...clientApis, "--tail=-1");
    expect(logs).not.toMatch(/forbidden:|"level":50/i);
    expect(logs).not.toContain(connections[0]?.apiKey);
  });

  it("answers while one of its replicas is being replaced", async () => {
    const [first] = connections;
    const { sandboxId } = await Sandbox.create("base", {
      ...first,
      metadata: { test: "replaced" },
      timeoutMs: 600_000,
    });
    await world.kubectl("rollout", "restart", "-n", "ramet-system", "deployment/ramet-client-api");
    await world.kubectl("rollout", "status", "-n", "ramet-system", "deployment/ramet-client-api", "--timeout=180s");
    await expect.poll(() => world.readyPods(...clientApis), long).toBe(2);
    for (const address of await addresses(clientApis)) {
      const headers = { "x-api-key": first?.apiKey ?? "" };
      const answer = await fetch(`http://${address}:8081/v2/sandboxes?metadata=test%3Dreplaced`, { headers });
      // Other files leave sandboxes in the namespace.
      expect(await answer.json()).toEqual([expect.objectContaining({ sandboxID: sandboxId })]);
    }
  });
});

const template = {
  apiVersion: "agents.kruise.io/v1alpha1",
  kind: "SandboxTemplate",
  metadata: { name: "base", namespace: "default" },
  spec: {
    template: {
      spec: {
        terminationGracePeriodSeconds: 5,
        containers: [
          {
            name: "sandbox",
            image: imageNames.python,
            command: ["sleep", "infinity"],
            resources: { requests: { cpu: "50m", memory: "64Mi" }, limits: { cpu: "1", memory: "512Mi" } },
          },
        ],
      },
    },
  },
};
