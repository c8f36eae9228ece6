import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parseAllDocuments } from "yaml";
import { checkpointKind } from "../../src/api/kinds/checkpoint.ts";
import { sandboxKind } from "../../src/api/kinds/sandbox.ts";
import { runProgram } from "../../src/cli/program.ts";
import { sandboxResources } from "../../src/controllers/cluster/resources.ts";
import type { Manifest } from "../../src/install/manifest.ts";
import { explicitConnection } from "../../src/kube/connection.ts";
import { KubeClient } from "../../src/kube/kube-client.ts";
import type { ResourceRef } from "../../src/kube/resource-ref.ts";
import { memoryIo } from "../setup/memory-io.ts";
import { installOpenKruiseCrds } from "../setup/openkruise-crds.ts";
import { OpenKruiseStandIn } from "../setup/openkruise-stand-in.ts";
import { tokenOf } from "../setup/service-accounts.ts";
import { dryRun, objectOf } from "../hostile/tenant-cluster.ts";
import { BesideWorld } from "./beside-world.ts";

/** The installation with the printed manifests and the commands of users, on a stand-in for OpenKruise's controllers. */
const world = new BesideWorld();
const namespace = "team";
let theirs: OpenKruiseStandIn;
let controllers: KubeClient | undefined;

beforeAll(async () => {
  await world.open();
  await world.namespace(namespace);
  await installOpenKruiseCrds(world.client);
  theirs = new OpenKruiseStandIn(world.client);
  await theirs.start();
});
afterAll(async () => {
  await world.stopControllers();
  await controllers?.close();
  await theirs.close();
  await world.close();
});

it("installs manifests whose rights suffice to build a version, without CRDs and Pods of sandboxes", async () => {
  const printed = (await ramet("manifests", "--image", "example/ramet:1", "--beside=openkruise")).stdout;
  const manifests = parseAllDocuments(printed).map((document) => document.toJS() as Manifest);
  const crds = manifests.filter(({ kind }) => kind === "CustomResourceDefinition");
  expect(crds.map(({ metadata }) => metadata.name)).toEqual([
    "namedsnapshots.ramet.dev",
    "apikeys.ramet.dev",
    "clientsecrets.ramet.dev",
  ]);
  expect(printed).not.toContain("sandboxtemplates/status");
  const policies = manifests.filter(({ kind }) => kind === "ValidatingAdmissionPolicy").map((one) => one.metadata.name);
  expect(policies).toEqual([
    "ramet-quota-annotation",
    "ramet-recipe-references",
    "ramet-restore-from",
    "ramet-api-keys",
  ]);
  for (const manifest of manifests) {
    await world.client.resource(refOf(manifest)).apply(manifest, { fieldManager: "kubectl" });
  }
  const { ca, server } = world.plane;
  const token = await tokenOf(world.client, { namespace: "ramet-system", name: "ramet-controller" });
  controllers = new KubeClient(explicitConnection({ server, ca, token }));
  await world.startBeside({ client: controllers, leaderElection: { identity: "one" } }).ready;
  const recipe = [{ run: "echo one > a" }, { run: "echo two >> a" }];
  const spec = {
    template: { metadata: { labels: { app: "a" } }, spec: { containers: [{ name: "main", image: "example/a" }] } },
  };
  const meta = { namespace, name: "base" };
  const { templates, snapshots } = sandboxResources;
  await world.create(templates, {
    apiVersion: "agents.kruise.io/v1alpha1",
    kind: "SandboxTemplate",
    metadata: meta,
    spec,
  });
  await world.create(snapshots, {
    apiVersion: "ramet.dev/v1alpha1",
    kind: "NamedSnapshot",
    metadata: { namespace, name: "data" },
    spec: { from: { template: { name: "base" } }, recipe },
  });
  const version = async () => (await ramet("snapshot", "get", "data", "-n", namespace, "-o", "json")).stdout;
  await expect.poll(version, { timeout: 60_000 }).toMatch(/"latestVersion": ?1/);
});

it("reports no error with ramet doctor, neither in the installation nor for one that is planned", async () => {
  // The stand-in holds no Lease, as their controllers do.
  const before = await ramet("doctor", "-n", namespace, "--timeout", "20s");
  expect([before.exitCode, before.stdout]).toEqual([
    0,
    expect.stringContaining("No controller of openkruise was found"),
  ]);
  await world.lease(namespace, "f57b9a68.kruise.io");
  for (const flags of [[], ["--beside=openkruise"]]) {
    const { stdout, exitCode } = await ramet("doctor", "-n", namespace, "--timeout", "20s", "-o", "json", ...flags);
    const { findings } = JSON.parse(stdout) as { findings: { check: string; level: string; message: string }[] };
    expect(exitCode, stdout).toBe(0);
    const others = findings.find(({ check }) => check === "other-controllers");
    expect(others).toMatchObject({ level: "ok", message: expect.stringContaining("as --beside expects") as string });
    expect(findings.map(({ check }) => check)).not.toContain("container-runtime");
  }
});

it("refuses a clone that their controllers would start as an ordinary sandbox, and nothing else", async () => {
  const key = "ramet.dev/restore-from";
  const theirKey = "agents.kruise.io/restore-from";
  const owner = { apiVersion: "agents.kruise.io/v1alpha1", kind: "SandboxSet", name: "pool", uid: "1" };
  const create = (metadata: object, annotations: Record<string, string> = {}) => {
    const template = { metadata: { annotations }, spec: { containers: [{ name: "main", image: "a" }] } };
    const sandbox = objectOf("Sandbox", { name: "by-hand", namespace }, { template });
    return dryRun(world.client, { ...sandbox, metadata: { ...sandbox.metadata, ...metadata } });
  };
  const refused = /ignore the annotation ramet\.dev\/restore-from: create the clone with `ramet sandbox create --from`/;
  await expect(create({ annotations: { [key]: "data" } })).rejects.toThrow(refused);
  await expect(create({}, { [key]: "data@1" })).rejects.toThrow(refused);
  await create({ annotations: { [key]: "id", [theirKey]: "id" } });
  await create({ ownerReferences: [owner] }, { [key]: "data" });
  await create({});
});

describe("commands", () => {
  it("create a sandbox from a template, which can be captured, and from a named snapshot", async () => {
    expect(await ramet("sandbox", "create", "--template", "base", "--name", "plain", "-n", namespace)).toMatchObject({
      exitCode: 0,
      stdout: "plain\n",
    });
    expect(await ramet("sandbox", "create", "--from", "data", "--name", "a", "-n", namespace)).toMatchObject({
      exitCode: 0,
      stdout: "a\n",
    });
    expect(await file("a")).toBe("one\ntwo\n");
    const refused = await ramet("sandbox", "create", "--from", "data", "--env", "A=1", "-n", namespace);
    expect([refused.exitCode, refused.stderr]).toEqual([
      2,
      expect.stringContaining("Cannot change the template of a clone beside other controllers"),
    ]);
  });

  it("capture a sandbox, keep its template with the checkpoint, and clone it when the source is gone", async () => {
    await writeFile(join(directoryOf("plain"), "a"), "kept\n");
    const { stdout } = await ramet("checkpoint", "create", "plain", "--name", "c", "-n", namespace);
    const checkpoint = await world.client.of(checkpointKind).get({ namespace, name: "c" });
    expect(stdout).toBe(`${checkpoint.status?.checkpointId ?? ""}\n`);
    expect(checkpoint.spec).toEqual({ podName: "plain" });
    await ramet("sandbox", "rm", "plain", "-n", namespace);
    expect(await ramet("sandbox", "create", "--from", "c", "--name", "again", "-n", namespace)).toMatchObject({
      exitCode: 0,
    });
    expect(await file("again")).toBe("kept\n");
  });

  it("fork a sandbox", async () => {
    await writeFile(join(directoryOf("a"), "a"), "forked\n");
    const forked = await ramet("fork", "a", "--count", "2", "--name-prefix", "try", "-n", namespace);
    expect(forked).toMatchObject({ exitCode: 0, stdout: expect.stringContaining("try-1") as string });
    expect([await file("try-1"), await file("try-2")]).toEqual(["forked\n", "forked\n"]);
  });

  it("roll a sandbox back by a clone that replaces it, and leave it as it is if the clone fails", async () => {
    const missing = await ramet("rollback", "a", "nothing", "-n", namespace);
    expect(missing.exitCode).not.toBe(0);
    expect(await names()).toContain("a");
    const rolledBack = await ramet("rollback", "a", "data@1", "-n", namespace);
    expect(rolledBack).toMatchObject({ exitCode: 0, stderr: "" });
    const [, replacement = ""] = /^sandbox (a-\S+) replaces a, rolled back to data@1\n$/.exec(rolledBack.stdout) ?? [];
    expect(await file(replacement)).toBe("one\ntwo\n");
    await expect.poll(names).not.toContain("a");
  });

  it("refuse a claim that restores a checkpoint, and name the alternatives", async () => {
    const { exitCode, stderr } = await ramet("claim", "pool", "--from", "data", "-n", namespace);
    expect([exitCode, stderr]).toEqual([2, expect.stringContaining("ramet sandbox create --from data")]);
  });
});

async function ramet(...args: string[]) {
  const io = memoryIo();
  const isLocal = args[0] === "manifests";
  const exitCode = await runProgram(io, isLocal ? args : [...args, "--kubeconfig", world.plane.kubeconfigPath]);
  return { exitCode, stdout: io.written("stdout"), stderr: io.written("stderr") };
}

function directoryOf(name: string): string {
  return theirs.guest(namespace, name).directory;
}

function file(sandbox: string): Promise<string> {
  return readFile(join(directoryOf(sandbox), "a"), "utf8");
}

async function names(): Promise<string[]> {
  const sandboxes = world.client.of(sandboxKind);
  return (await sandboxes.list({ namespace })).items.map(({ metadata }) => metadata.name);
}

function refOf({ apiVersion, kind, metadata }: Manifest): ResourceRef {
  const [version = "", group = ""] = apiVersion.split("/").reverse();
  const plural = `${kind.toLowerCase()}s`.replace(/ys$/, "ies");
  return { group, version, plural, kind, namespaced: metadata.namespace !== undefined };
}
