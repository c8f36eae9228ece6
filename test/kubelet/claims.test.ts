import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { cellSeccompProfile } from "./node.ts";
import { imageNames } from "./images.ts";
import { makeStoreSecret, openWorld, type World } from "./world.ts";

/** No other test uses it: all claims in it are counted. */
const namespace = "claims";
const kind = { apiVersion: "agents.kruise.io/v1alpha1", metadata: { namespace } };
const claims = Array.from({ length: 12 }, (_, n) => `claim-${n}`);

/** Tests claims on one slow node: each start of a sandbox competes with the others, and with the controllers that restart. */
describe("claims while the controllers restart", () => {
  let world: World;
  let directory: string;

  beforeAll(async () => {
    world = await openWorld(namespace);
    await world.kubectl("create", "namespace", namespace);
    directory = join(world.directory, "kustomization");
    const address = `s3://checkpoints/claims?endpoint=${encodeURIComponent(world.s3.endpoint)}&allow-insecure=true`;
    const images = ["--image", imageNames.controller, "--cell-image", imageNames.cell];
    const cells = ["--cell-seccomp-profile", cellSeccompProfile];
    await world.ramet("manifests", ...images, ...cells, "--store", address, "--store-secret", "s3", "--out", directory);
    await world.kubectl("apply", "-f", join(directory, "namespace.yaml"));
    await makeStoreSecret(world);
    await world.kubectl("apply", "-k", directory);
    await world.kubectl("rollout", "status", "-n", "ramet-system", "deployment/ramet-controller", "--timeout=120s");
    const sandbox = { name: "sandbox", image: imageNames.python, command: ["sleep", "infinity"] };
    const template = { spec: { terminationGracePeriodSeconds: 1, containers: [sandbox] } };
    await apply("SandboxSet", "set", { replicas: 2, template });
    const full = "--for=jsonpath={.status.availableReplicas}=2";
    await world.kubectl("wait", "sandboxset/set", full, "--timeout=90s");
  });
  afterAll(async () => {
    await world.kubectl("delete", "sandboxset,sandboxclaim,sandbox", "--all", "--wait=true");
    await world.kubectl("delete", "-f", join(directory, "deployment.yaml"));
  });

  const apply = (name: string, object: string, spec: object) =>
    world.apply(JSON.stringify({ ...kind, kind: name, metadata: { ...kind.metadata, name: object }, spec }));

  it("get their sandboxes, each of which is created once, however slow its start is", async () => {
    await world.kubectl("rollout", "restart", "-n", "ramet-system", "deployment/ramet-controller");
    for (const name of claims)
      await apply("SandboxClaim", name, { templateName: "set", claimTimeout: "4m", waitReadyTimeout: "5s" });
    const delivered = async () =>
      (await world.kubectl("get", "sandboxclaims", "-o", "jsonpath={.items[*].status.claimedReplicas}")).split(" ");
    await expect.poll(delivered, { timeout: 300_000, interval: 1_000 }).toEqual(claims.map(() => "1"));
    // A slow sandbox that a ready one has replaced is removed when its claim is complete.
    const sorted = (printed: string) => printed.trim().split(/\s+/).sort();
    const own = ["-l", "agents.kruise.io/sandbox-claimed=true", "-o", "jsonpath={.items[*].metadata.name}"];
    const claimed = async () => sorted(await world.kubectl("get", "sandboxes", ...own));
    const names = ["-o", "jsonpath={.items[*].status.ramet.sandboxes[*]}"];
    const reported = sorted(await world.kubectl("get", "sandboxclaims", ...names));
    expect(new Set(reported).size).toBe(claims.length);
    await expect.poll(claimed, { timeout: 60_000, interval: 1_000 }).toEqual(reported);
    const events = await world.kubectl("get", "events.events.k8s.io", "-o", "jsonpath={.items[*].reason}");
    expect(events).not.toContain("TimeoutReached");
  }, 400_000);
});
