import { execFile } from "node:child_process";
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, it } from "vitest";
import { namedSnapshotKind } from "../../src/api/kinds/named-snapshot.ts";
import { sandboxSetKind } from "../../src/api/kinds/sandbox-set.ts";
import { TestCluster } from "../cluster/local-cluster.ts";
import { isOnPath } from "../engine/find-pulumi.ts";
import { pluginDirectory } from "../engine/provider-plugin.ts";

/** The examples in other languages, run by `pulumi` with its language hosts and the Kubernetes plugin. */
const examples = join(import.meta.dirname, "../../examples");
let cluster: TestCluster;
let home: string;

beforeAll(async () => {
  cluster = await TestCluster.create();
  await cluster.up();
  home = await mkdtemp(join(tmpdir(), "ramet-languages-"));
  await mkdir(join(home, "state"));
});

afterAll(async () => {
  await cluster.remove();
  await rm(home, { recursive: true, force: true });
});

it.for(["yaml", "python"])("previews, applies and destroys the example in %s", async (language, context) => {
  const host = `pulumi-language-${language}`;
  if (!(await isOnPath(host))) context.skip(`The example in ${language} is not run, because the PATH lacks ${host}`);
  const program = join(home, language);
  await cp(join(examples, language), program, { recursive: true });
  const settings = join(program, "Pulumi.yaml");
  await writeFile(settings, (await readFile(settings, "utf8")).replace("../../plugin", pluginDirectory));
  // A virtual environment and the generated SDK.
  if (language === "python") await pulumi(program, "install");
  await pulumi(program, "stack", "init", "dev");
  expect(await pulumi(program, "preview", "--json")).toMatch(/"create": 7\b/);
  await pulumi(program, "up", "--yes", "--skip-preview");
  expect(JSON.parse(await pulumi(program, "stack", "output", "--json"))).toEqual({ reference: "python-data@1" });
  const client = await cluster.client();
  const pool = await client.of(sandboxSetKind).get({ namespace: "default", name: "pool" });
  expect(pool.status).toMatchObject({ availableReplicas: 2 });
  expect(await pulumi(program, "up", "--yes", "--skip-preview")).toMatch(/7 unchanged/);
  await pulumi(program, "destroy", "--yes", "--skip-preview");
  expect(await client.of(namedSnapshotKind).find({ namespace: "default", name: "python-data" })).toBeUndefined();
});

async function pulumi(program: string, ...words: string[]): Promise<string> {
  const env = {
    ...process.env,
    KUBECONFIG: cluster.directory.kubeconfig,
    PULUMI_BACKEND_URL: `file://${join(home, "state")}`,
    PULUMI_HOME: join(home, "home"),
    PULUMI_CONFIG_PASSPHRASE: "a passphrase",
    PULUMI_SKIP_UPDATE_CHECK: "true",
    PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION: "true",
  };
  const { stdout } = await promisify(execFile)("pulumi", [...words, "--non-interactive"], { cwd: program, env });
  return stdout;
}
