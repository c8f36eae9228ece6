import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { imageNames, pushImage, registryImage } from "./images.ts";
import { openShell, readCommands } from "./page.ts";
import { openWorld, type World } from "./world.ts";

/**
 * Runs the commands of docs/tasks/install.md in their order, from an empty cluster to the first command in a sandbox. Only the
 * names that a reader also replaces are replaced: images, store, keys, and the registry of the cluster, which serves HTTP. The
 * images are built by the suite.
 */
describe("the page about the installation", () => {
  let world: World;
  let run: (commands: string) => Promise<string>;

  beforeAll(async () => {
    world = await openWorld();
    await pushImage(world.registries.open, "install");
    run = await openShell(world);
  });
  afterAll(async () => {
    await world.kubectl("delete", "namespace", "team-a", "--ignore-not-found", "--wait=true");
    await world.kubectl("delete", "-f", join(world.directory, "deploy/ramet/deployment.yaml"));
  });

  it("leads from an empty cluster to the first command in a sandbox", async () => {
    const printed = await run((await commandsOf("## 2. Install controllers and gateways", "## 6. Check")).join("\n"));
    expect(printed.split("\n")).toContain("42");
  });

  it("leaves no object of a checkpoint that is refused because its sandbox is not ready", async () => {
    const waiting = "ramet sandbox create -n team-a --image localhost/missing:1 --name waiting --no-wait";
    const refused = await run(`${waiting}\nramet checkpoint create -n team-a waiting`).catch(String);
    expect(refused).toContain("The checkpoint was not taken");
    expect(await world.kubectl("get", "checkpoints", "-n", "team-a", "-o", "name")).toBe("");
  });

  it("has a doctor that finds nothing to repair", async () => {
    expect(await run("ramet doctor -n team-a -o json")).not.toContain('"level": "error"');
  });

  it("names a cell image that nodes cannot pull in explain and in doctor", async () => {
    const [installed = ""] = await commandsOf("## 2. Install controllers and gateways");
    const [manifests = ""] = installed.split("\nkubectl");
    const missing = `${world.registries.open}/${registryImage.repository}:missing`;
    await run(`${manifests.replace(imageNames.cell, missing)}\nkubectl apply -k deploy/ramet`);
    await run("kubectl rollout status -n ramet-system deployment/ramet-controller --timeout 120s");
    const image = `${world.registries.open}/${registryImage.repository}:install`;
    await run(`ramet sandbox create -n team-a --image ${image} --name late --no-wait`);
    const explained = () => run("ramet explain -n team-a sandbox/late").catch(String);
    await expect.poll(explained, { timeout: 120_000, interval: 1_000 }).toContain(`The cell image ${missing}`);
    expect(await run("ramet doctor -n team-a").catch(String)).toContain(`cannot pull the cell image ${missing}`);
  });

  function commandsOf(...headings: string[]): Promise<string[]> {
    const { endpoint, environment: keys } = world.s3;
    const address = `s3://checkpoints/install?region=us-east-1&endpoint=${encodeURIComponent(endpoint)}&allow-insecure=true`;
    const replacements: Record<string, string> = {
      "registry.example/ramet:1": imageNames.controller,
      "registry.example/ramet-cell:1": imageNames.cell,
      "s3://checkpoints/ramet?region=eu-central-1": address,
      "AWS_ACCESS_KEY_ID=KEY": `AWS_ACCESS_KEY_ID=${keys["AWS_ACCESS_KEY_ID"] ?? ""}`,
      "AWS_SECRET_ACCESS_KEY=SECRET": `AWS_SECRET_ACCESS_KEY=${keys["AWS_SECRET_ACCESS_KEY"] ?? ""}`,
      "--out deploy/ramet": `--insecure-registry ${world.registries.open} --out deploy/ramet`,
      "python:3.13": `${world.registries.open}/${registryImage.repository}:install`,
    };
    return readCommands("docs/tasks/install.md", headings, replacements);
  }
});
