import { cp, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { LocalWorkspace } from "@pulumi/pulumi/automation/index.js";
import { afterAll, beforeAll, expect, it } from "vitest";
import { findPulumi } from "../engine/find-pulumi.ts";
import { linkPackages } from "../engine/link-packages.ts";
import { nowhere } from "../setup/nowhere.ts";

/** The Pulumi.yaml of the repository, with which `pulumi up` in its root runs the program of the first page. */
const root = join(import.meta.dirname, "../..");
let home: string;

beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), "ramet-root-"));
  const program = join(home, "examples/local");
  await mkdir(join(home, "state"));
  await cp(join(root, "Pulumi.yaml"), join(home, "Pulumi.yaml"));
  await cp(join(root, "examples/local"), program, {
    recursive: true,
    filter: (path) => !path.endsWith("node_modules"),
  });
  await linkPackages(program);
  await writeFile(join(home, "kubeconfig"), nowhere);
});

afterAll(() => rm(home, { recursive: true, force: true }));

it("runs the program of examples/local from the repository's root", async () => {
  const pulumiCommand = await findPulumi();
  if (pulumiCommand === undefined) throw new Error("there is no pulumi on the PATH");
  const envVars = {
    KUBECONFIG: join(home, "kubeconfig"),
    PULUMI_BACKEND_URL: `file://${join(home, "state")}`,
    PULUMI_HOME: join(home, "home"),
    PULUMI_CONFIG_PASSPHRASE: "a passphrase",
    PULUMI_SKIP_UPDATE_CHECK: "true",
    PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION: "true",
  };
  const stack = await LocalWorkspace.createOrSelectStack(
    { stackName: "dev", workDir: home },
    { pulumiCommand, envVars },
  );
  const { stdout, changeSummary } = await stack.preview({ color: "never" });
  expect(stdout).toMatch(/NamedSnapshot +python-data +create/);
  expect(Object.keys(changeSummary)).toEqual(["create"]);
});
