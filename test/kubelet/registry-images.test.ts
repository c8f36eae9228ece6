import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { account } from "../setup/registry.ts";
import { cellSeccompProfile } from "./node.ts";
import { imageNames, pushImage, registryImage } from "./images.ts";
import { makeStoreSecret, openWorld, type World } from "./world.ts";

const long = { timeout: 90_000, interval: 250 };
const said = "hello daemon:mail in /usr/share";

/** Tests sandboxes of images that a real kubelet pulls from a real registry, and whose templates name no command. */
describe("an image in a registry", () => {
  let world: World;
  let directory: string;

  beforeAll(async () => {
    world = await openWorld();
    directory = join(world.directory, "kustomization");
    const address = `s3://checkpoints/images?endpoint=${encodeURIComponent(world.s3.endpoint)}&allow-insecure=true`;
    const images = ["--image", imageNames.controller, "--cell-image", imageNames.cell];
    const cells = ["--cell-seccomp-profile", cellSeccompProfile];
    const registries = Object.values(world.registries).flatMap((host) => ["--insecure-registry", host]);
    const store = ["--store", address, "--store-secret", "s3"];
    await world.ramet("manifests", ...images, ...cells, ...registries, ...store, "--out", directory);
    await world.kubectl("apply", "-f", join(directory, "namespace.yaml"));
    await makeStoreSecret(world);
    await world.kubectl("apply", "-k", directory);
    await world.kubectl("rollout", "status", "-n", "ramet-system", "deployment/ramet-controller", "--timeout=120s");
    await pushImage(world.registries.open, "1");
  });
  afterAll(async () => {
    await world.kubectl("delete", "sandbox", "--all", "--wait=true");
    await world.kubectl("delete", "-f", join(directory, "deployment.yaml"));
  });

  const imageOf = (name: string) =>
    world.kubectl("get", "pod", name, "-o", 'jsonpath={.spec.volumes[?(@.name=="ramet-root")].image.reference}');

  const sandbox = (name: string, image: string, more: object = {}) =>
    world.apply(
      JSON.stringify({
        apiVersion: "agents.kruise.io/v1alpha1",
        kind: "Sandbox",
        metadata: { name, namespace: "default" },
        spec: { template: { spec: { containers: [{ name: "main", image }], ...more } } },
      }),
    );

  it("runs its entrypoint with its variables, as its user, in its directory, also in a clone after the tag has moved", async () => {
    const image = `${world.registries.open}/${registryImage.repository}`;
    await sandbox("app", `${image}:1`);
    await expect.poll(() => world.inSandbox("app", "cat /tmp/said").catch(String), long).toBe(said);
    const reference = await imageOf("app");
    expect(reference).toMatch(new RegExp(`^${image}@sha256:[0-9a-f]{64}$`));
    const id = await world.ramet("checkpoint", "create", "app");
    await pushImage(world.registries.open, "1", "other");
    await world.ramet("sandbox", "create", "--from", id, "--name", "app-clone");
    expect(await world.inSandbox("app-clone", "cat /tmp/said")).toBe(said);
    expect(await imageOf("app-clone")).toBe(reference);
  });

  it("is pulled from a registry with a password with the Secret that the template names", async () => {
    await pushImage(world.registries.open, "private");
    const server = `--docker-server=${world.registries.protected}`;
    const login = [`--docker-username=${account.username}`, `--docker-password=${account.password}`];
    await world.kubectl("create", "secret", "docker-registry", "pull", server, ...login);
    const image = `${world.registries.protected}/${registryImage.repository}:private`;
    await sandbox("secretless", image);
    await expect
      .poll(() => world.kubectl("get", "sandbox", "secretless", "-o", "jsonpath={.status.message}"), long)
      .toContain("it asks for credentials");
    await sandbox("private", image, { imagePullSecrets: [{ name: "pull" }] });
    await expect.poll(() => world.inSandbox("private", "cat /tmp/said").catch(String), long).toBe(said);
  });
});
