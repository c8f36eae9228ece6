import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it, type TestContext } from "vitest";
import { KubeClient } from "../../src/kube/kube-client.ts";
import { builtPrograms } from "../setup/built-package.ts";
import { openControlPlane, type TestControlPlane } from "../setup/control-plane.ts";
import { makeNamespace } from "../setup/namespace.ts";
import { refOfKind } from "../hostile/tenant-cluster.ts";

/** The scripts of `ramet completion` in real shells, with names from a real API server. */
let plane: TestControlPlane;
let directory: string;

beforeAll(async () => {
  plane = await openControlPlane();
  directory = await mkdtemp(join(tmpdir(), "ramet-completion-"));
  const client = new KubeClient(plane.connection);
  await makeNamespace(client, "team");
  const apiVersion = "agents.kruise.io/v1alpha1";
  const template = { spec: { containers: [{ name: "main", image: "python" }] } };
  for (const [kind, name] of [
    ["SandboxTemplate", "python-data"],
    ["Sandbox", "worker"],
  ] as const) {
    const metadata = { name, namespace: "team" };
    await client.resource(refOfKind(kind)).create({ apiVersion, kind, metadata, spec: { template } });
  }
  await client.close();
  const ramet = join(directory, "ramet");
  await writeFile(ramet, `#!/bin/sh\nexec '${builtPrograms.ramet.join("' '")}' "$@"\n`);
  await chmod(ramet, 0o755);
});
afterAll(async () => {
  await rm(directory, { recursive: true, force: true });
  await plane.stop();
});

/** The text before a tab, and the words that the command line then has. */
const completed: readonly (readonly [typed: string, words: string])[] = [
  ["ramet sandb", "ramet sandbox"],
  ["ramet sandbox port", "ramet sandbox port-forward"],
  ["ramet sandbox ls --all", "ramet sandbox ls --all-namespaces"],
  ["ramet sandbox ls -o j", "ramet sandbox ls -o json"],
  ["ramet sandbox ls --output=j", "ramet sandbox ls --output=json"],
  ["ramet sandbox ls -n te", "ramet sandbox ls -n team"],
  ["ramet sandbox create -n team --template py", "ramet sandbox create -n team --template python-data"],
  ["ramet explain --namespace=team template/py", "ramet explain --namespace=team template/python-data"],
  ["ramet sandbox cp -n team wor", "ramet sandbox cp -n team worker:"],
  ["ramet sandbox cp -n team worker:/x /etc/hostn", "ramet sandbox cp -n team worker:/x /etc/hostname"],
];

it("completes in bash", async (context) => {
  needs(context, "bash", "script");
  const lines = await typedInto("bash --norc --noprofile -i", "source <(ramet completion bash)");
  expect(lines).toEqual(completed.map(([, words]) => words));
});

it("completes in zsh", async (context) => {
  needs(context, "zsh", "script");
  const lines = await typedInto("zsh -f -i", "bindkey -e; source <(ramet completion zsh)");
  expect(lines).toEqual(completed.map(([, words]) => words));
});

it("completes in fish", (context) => {
  needs(context, "fish");
  const asked = completed.map(([typed]) => `complete -C '${typed}'; echo //`).join("; ");
  const script = `ramet completion fish | source; ${asked}`;
  const { stdout, stderr } = spawnSync("fish", ["--no-config", "-c", script], { env: environment(), encoding: "utf8" });
  expect(stderr).toBe("");
  const found = stdout.split("//\n").slice(0, -1);
  expect(found.map((one) => one.trim().split("\t")[0])).toEqual(completed.map(([, words]) => words.split(" ").at(-1)));
});

function needs(context: TestContext, ...programs: readonly string[]): void {
  const missing = programs.filter((one) => spawnSync(one, ["--version"]).error !== undefined);
  if (missing.length > 0) context.skip(`not tried, because the PATH lacks ${missing.join(" and ")}`);
}

function environment(): NodeJS.ProcessEnv {
  const path = `${directory}:${process.env["PATH"] ?? ""}`;
  return { PATH: path, HOME: directory, KUBECONFIG: plane.kubeconfigPath, TERM: "dumb", LANG: "C.UTF-8" };
}

/** Types each line and a tab into an interactive shell, and then in front of it a command that prints its words. */
async function typedInto(shell: string, setup: string): Promise<string[]> {
  const child = spawn("script", ["-qec", shell, "/dev/null"], { env: environment(), cwd: directory });
  let output = "";
  child.stdout.on("data", (chunk: Buffer) => (output += chunk.toString()));
  const typed = completed.map(([line]) => `${line}\t\x01echo @ \n`);
  child.stdin.end(`${setup}\n${typed.join("")}exit\n`);
  await once(child, "close");
  return output.split("\n").flatMap((line) => (line.startsWith("@ ") ? [line.slice(2).trim()] : []));
}
