import { spawn } from "node:child_process";
import { mkdir, readFile, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { builtPrograms } from "../setup/built-package.ts";
import { imageNames, pushImage, registryImage } from "./images.ts";
import { openWorld, type World } from "./world.ts";

/**
 * Runs the commands of docs/tasks/install.md in their order, from an empty cluster to the first command in a sandbox. Only the
 * names that a reader also replaces are replaced: images, store, keys, and the registry of the cluster, which serves HTTP. The
 * images are built by the suite.
 */
describe("the page about the installation", () => {
  let world: World;
  let environment: NodeJS.ProcessEnv;

  beforeAll(async () => {
    world = await openWorld();
    await pushImage(world.registries.open, "install");
    const bin = join(world.directory, "bin");
    await mkdir(bin);
    await symlink(world.kubectlPath, join(bin, "kubectl"));
    await writeFile(join(bin, "ramet"), `#!/bin/sh\nexec ${builtPrograms.ramet.join(" ")} "$@"\n`, { mode: 0o755 });
    environment = { ...process.env, KUBECONFIG: world.kubeconfig, PATH: `${bin}:${process.env["PATH"] ?? ""}` };
  });
  afterAll(async () => {
    await world.kubectl("delete", "namespace", "team-a", "--ignore-not-found", "--wait=true");
    await world.kubectl("delete", "-f", join(world.directory, "deploy/ramet/deployment.yaml"));
  });

  it("leads from an empty cluster to the first command in a sandbox", async () => {
    const page = await readFile("docs/tasks/install.md", "utf8");
    const installed = commandsOf(page, "## 2. Install controllers and gateways");
    const checked = commandsOf(page, "## 6. Check");
    const printed = await run(asReader(`${installed}\n${checked}`));
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
    const page = await readFile("docs/tasks/install.md", "utf8");
    const [manifests = ""] = asReader(commandsOf(page, "## 2. Install controllers and gateways")).split("\nkubectl");
    const missing = `${world.registries.open}/${registryImage.repository}:missing`;
    await run(`${manifests.replace(imageNames.cell, missing)}\nkubectl apply -k deploy/ramet`);
    await run("kubectl rollout status -n ramet-system deployment/ramet-controller --timeout 120s");
    const image = `${world.registries.open}/${registryImage.repository}:install`;
    await run(`ramet sandbox create -n team-a --image ${image} --name late --no-wait`);
    const explained = () => run("ramet explain -n team-a sandbox/late").catch(String);
    await expect.poll(explained, { timeout: 120_000, interval: 1_000 }).toContain(`The cell image ${missing}`);
    expect(await run("ramet doctor -n team-a").catch(String)).toContain(`cannot pull the cell image ${missing}`);
  });

  /** The page's text with the names of this cluster. */
  function asReader(commands: string): string {
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
    return Object.entries(replacements).reduce((text, [name, own]) => text.replaceAll(name, own), commands);
  }

  /** Stops at the first command that fails. Ends the commands in the background. */
  async function run(commands: string): Promise<string> {
    const script = `set -e\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n${commands}\n`;
    const child = spawn("bash", ["-c", script], {
      cwd: world.directory,
      env: environment,
      stdio: ["ignore", "pipe", "pipe"],
    });
    let printed = "";
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding("utf8").on("data", (text: string) => (printed += text));
    }
    const code = await new Promise((resolve) => child.on("close", resolve));
    if (code !== 0) throw new Error(`exit code ${String(code)}:\n${printed}`);
    return printed;
  }
});

/** The first block of commands below a heading. */
function commandsOf(page: string, heading: string): string {
  const [, section = ""] = page.split(`\n${heading}\n`);
  const [, commands = ""] = /```sh\n([^]*?)\n```/.exec(section) ?? [];
  expect(commands).not.toBe("");
  return commands;
}
