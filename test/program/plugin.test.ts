import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { status } from "@grpc/grpc-js";
import { afterAll, beforeAll, expect, it } from "vitest";
import { apiKeyKind } from "../../src/api/kinds/api-key.ts";
import { namedSnapshotKind } from "../../src/api/kinds/named-snapshot.ts";
import { sandboxKind } from "../../src/api/kinds/sandbox.ts";
import { sandboxSetKind } from "../../src/api/kinds/sandbox-set.ts";
import { sandboxTemplateKind } from "../../src/api/kinds/sandbox-template.ts";
import type { KubeClient } from "../../src/kube/kube-client.ts";
import type { KubeObject } from "../../src/kube/object.ts";
import { coreResources } from "../../src/kube/resource-ref.ts";
import { TestCluster } from "../cluster/local-cluster.ts";
import { plain, pluginDirectory, type PluginState, ProviderPlugin } from "../engine/provider-plugin.ts";
import { secretSignature, signatureKey, type Values } from "../engine/values.ts";
import { openControlPlane, type TestControlPlane } from "../setup/control-plane.ts";
import { openProgram } from "./program-world.ts";
import { killed } from "./provider-world.ts";

/** The compiled provider process on a real cluster, over the protocol of Pulumi's engine. The tests depend on their order. */
const namespace = "default";
const token = "correct-horse-battery-staple";
let cluster: TestCluster;
let client: KubeClient;
let other: TestControlPlane;
let plugin: ProviderPlugin;
let data: PluginState;

beforeAll(async () => {
  cluster = await TestCluster.create();
  await cluster.up();
  client = await cluster.client();
  other = await openControlPlane();
  const containers = [{ name: "main", image: "python", command: ["sleep", "infinity"] }];
  await client.of(sandboxTemplateKind).create({
    apiVersion: sandboxTemplateKind.apiVersion,
    kind: "SandboxTemplate",
    metadata: { name: "base", namespace },
    spec: { template: { spec: { containers } } },
  });
  plugin = await start();
});
afterAll(async () => {
  await plugin.stop();
  await other.stop();
  await cluster.remove();
});

/** The environment has no kubeconfig: only the settings of the provider select the cluster. */
async function start(settings: Values = {}): Promise<ProviderPlugin> {
  const { KUBECONFIG: _, ...environment } = process.env;
  const kubeconfig = await readFile(cluster.directory.kubeconfig, "utf8");
  return ProviderPlugin.start({ ...environment, HOME: "/nowhere" }, { kubeconfig: secret(kubeconfig), ...settings });
}

const secret = (value: unknown): Values => ({ [signatureKey]: secretSignature, value });
const urn = (type: string, name: string): string => `urn:pulumi:dev::agents::ramet:index:${type}::${name}`;
const snapshot = (name: string): string => urn("NamedSnapshot", name);
const from = { template: "base" };
const unknown = "04da6b54-80e4-46f7-96ec-b56ff0331ba9";
const secretFile = { copy: { path: "/etc/token", secret: secret(token) } };
const recipe = [secretFile, { run: "echo one > /data" }, { run: "true" }];

it("serves the schema of the package, and checks its settings", async () => {
  expect(await plugin.schema()).toBe(await readFile(join(pluginDirectory, "schema.json"), "utf8"));
  const kubeconfig = "apiVersion: v1\nkind: Config";
  expect(await plugin.checkConfig({ kubeconfig })).toEqual({
    inputs: { kubeconfig: secret(kubeconfig) },
    failures: [],
  });
  const { failures } = await plugin.checkConfig({ context: 3, kubeconfg: "a" });
  expect(failures).toEqual([
    "context: must be a string",
    expect.stringMatching(/^kubeconfg: is not one of kubeconfig, /),
  ]);
});

it("previews a new snapshot: what only the cluster knows is unknown, and nothing is created", async () => {
  const { outputs } = await plugin.create(snapshot("data"), { from, recipe }, { preview: true });
  expect(outputs).toMatchObject({ name: "data", namespace, version: unknown, digest: unknown, checkpointId: unknown });
  const pinned = await plugin.create(snapshot("pinned"), { from: { checkpoint: "a" }, recipe: [] }, { preview: true });
  expect(pinned.outputs).toMatchObject({ digest: expect.stringMatching(/^sha256:/) as string, version: unknown });
  expect((await client.of(namedSnapshotKind).list({ namespace })).items).toEqual([]);
});

it("refuses bad inputs with their paths", async () => {
  await expect(plugin.check(snapshot("data"), { from, recipe: [{ run: "" }] })).rejects.toThrow(/^recipe\[0\]\.run: /);
  await expect(plugin.check(snapshot("data"), { from, receipe: [] })).rejects.toThrow(/^receipe: is not a property/);
  await expect(plugin.check(snapshot("data"), { from, recipe: [{ run: secret("a") }] })).rejects.toThrow(
    /^recipe: contains a secret/,
  );
  await expect(plugin.check(urn("Sandbox", "data"), {})).rejects.toMatchObject({
    message: expect.stringMatching(/no resource type ramet:index:Sandbox \[NotSupported\]$/) as string,
    cause: { code: status.FAILED_PRECONDITION },
  });
});

it("continues with a snapshot whose process was killed in the middle of a Create", async () => {
  plugin.onLine = (line) => {
    if (line.includes("Step 2 of 3")) plugin.child.kill("SIGKILL");
  };
  await expect(plugin.create(snapshot("data"), { from, recipe })).rejects.toMatchObject(killed);
  await plugin.stop();
  plugin = await start();
  const { uid } = (await client.of(namedSnapshotKind).get({ namespace, name: "data" })).metadata;
  data = await plugin.create(snapshot("data"), { from, recipe });
  expect((await client.of(namedSnapshotKind).get({ namespace, name: "data" })).metadata.uid).toBe(uid);
  expect(data).toMatchObject({ id: "default/data", outputs: { version: 1 } });
});

it("reports progress on the resource, and keeps a secret out of messages and of what is not encrypted", () => {
  expect(plugin.lines.map((line) => line.urn)).toContain(snapshot("data"));
  expect(plugin.lines.map(({ text }) => text).join("\n")).toMatch(/data: version 1 is current/);
  expect(JSON.stringify(plugin.lines)).not.toContain(token);
  expect(data.outputs["recipe"]).toMatchObject([secretFile, {}, {}]);
  const visible = JSON.stringify({ ...data, inputs: plain({}), outputs: { ...data.outputs, recipe: [] } });
  expect(visible).not.toContain(token);
});

it("shows nothing for equal inputs, and the path of a changed, inserted or removed step", async () => {
  const diff = (steps: unknown[], more: Values = {}) =>
    plugin.diff(snapshot("data"), data, { from, recipe: steps, ...more });
  const [first, second, third] = recipe;
  expect(await diff(recipe)).toEqual({ changes: false, replaces: [], details: [] });
  expect(await diff([first, { run: "echo two > /data" }, third])).toMatchObject({ details: ["~ recipe[1].run"] });
  expect(await diff([first, { run: "id" }, second, third])).toMatchObject({ details: ["+ recipe[1]"] });
  expect(await diff([first, third])).toMatchObject({ details: ["- recipe[1]"] });
  expect(await diff(recipe, { keepVersions: 2, name: "b" })).toEqual({
    changes: true,
    replaces: ["name"],
    details: ["~ keepVersions", "~! name"],
  });
  const changed = { copy: { path: "/etc/token", secret: secret("another") } };
  expect(await diff([changed, second, third])).toMatchObject({ details: ["~ recipe[0].copy.secret"] });
});

it("updates, and keeps in a preview what does not change", async () => {
  const steps = [...recipe.slice(0, 2), { run: "echo two" }];
  const kept = await plugin.update(snapshot("data"), data, { from, recipe, keepVersions: 2 }, { preview: true });
  expect(kept.outputs).toMatchObject({ keepVersions: 2, version: 1 });
  data = await plugin.update(snapshot("data"), data, { from, recipe: steps });
  expect(data.outputs).toMatchObject({ version: 2 });
  const reread = await plugin.read(snapshot("data"), data.id, data);
  expect(reread?.outputs).toEqual(data.outputs);
  expect(await plugin.diff(snapshot("data"), reread ?? data, { from, recipe: steps })).toMatchObject({
    changes: false,
  });
});

it("keeps the version that the program pins, and releases it again", async () => {
  const request = { from, recipe: [...recipe.slice(0, 2), { run: "echo two" }], labels: { team: "a" } };
  const pinned = { ...request, pinnedVersion: 1, annotations: { "example.org/why": "incident" } };
  const { outputs: expected } = await plugin.update(snapshot("data"), data, pinned, { preview: true });
  expect(expected).toMatchObject({ version: unknown, reference: unknown });
  data = await plugin.update(snapshot("data"), data, pinned);
  expect(data.outputs).toMatchObject({ version: 1, reference: "data@1", createdAt: expect.any(String) as string });
  expect((await client.of(namedSnapshotKind).get({ namespace, name: "data" })).metadata).toMatchObject({
    labels: { team: "a" },
    annotations: { "example.org/why": "incident", "ramet.dev/pulumi-resource": "agents/dev/data" },
  });
  expect(await plugin.diff(snapshot("data"), (await plugin.read(snapshot("data"), data.id, data))!, pinned)).toEqual({
    changes: false,
    replaces: [],
    details: [],
  });
  await client.of(namedSnapshotKind).mergePatch({ namespace, name: "data" }, { metadata: { labels: { team: "b" } } });
  const drifted = await plugin.read(snapshot("data"), data.id, data);
  expect(await plugin.diff(snapshot("data"), drifted!, pinned)).toMatchObject({ details: ["~ labels.team"] });
  data = await plugin.update(snapshot("data"), drifted!, { from, recipe: request.recipe });
  expect(data.outputs).toMatchObject({ version: 2, reference: "data@2" });
});

it("adds the organization to the names of owners, also of objects that it has declared without one", async () => {
  await plugin.stop();
  plugin = await start({ organization: "acme" });
  const steps = [...recipe.slice(0, 2), { run: "echo two" }];
  data = await plugin.update(snapshot("data"), data, { from, recipe: steps, keepVersions: 3 });
  const { metadata } = await client.of(namedSnapshotKind).get({ namespace, name: "data" });
  expect(metadata.annotations).toMatchObject({ "ramet.dev/pulumi-resource": "acme/agents/dev/data" });
});

it("takes over the object of nobody only by import, and that of another program never", async () => {
  const { apiVersion } = namedSnapshotKind;
  const spec = { from: { template: { name: "base" } }, recipe: [{ run: "true" }] };
  const make = (name: string, annotations = {}) =>
    client.of(namedSnapshotKind).create({
      apiVersion,
      kind: "NamedSnapshot",
      metadata: { name, namespace, annotations },
      spec,
    });
  await make("theirs");
  await make("declared", { "ramet.dev/pulumi-resource": "organization/b/dev/declared" });
  // A preview fails too.
  await expect(plugin.check(snapshot("theirs"), { from })).rejects.toThrow(
    /^name: NamedSnapshot default\/theirs exists, and this program does not declare it\. .*pulumi import/,
  );
  await expect(plugin.check(snapshot("declared"), { from })).rejects.toThrow(
    /^name: NamedSnapshot default\/declared is declared by organization\/b\/dev\/declared/,
  );
  await expect(plugin.read(snapshot("declared"), "default/declared")).rejects.toThrow(
    /declared by organization\/b\/dev/,
  );
  expect(await plugin.read(snapshot("theirs"), "default/missing")).toBeUndefined();
  const imported = await plugin.read(snapshot("theirs"), "default/theirs");
  expect(imported?.inputs).toMatchObject({
    name: "theirs",
    namespace,
    from,
    recipe: [{ run: "true" }],
    keepVersions: 5,
  });
  expect(await plugin.diff(snapshot("theirs"), imported!, { from, recipe: [{ run: "true" }] })).toMatchObject({
    changes: false,
  });
  await plugin.delete(snapshot("theirs"), imported!);
  expect(await client.of(namedSnapshotKind).find({ namespace, name: "theirs" })).toBeUndefined();
  await expect(plugin.read(urn("ApiKey", "a"), "default/a")).rejects.toThrow(/cannot be imported/);
});

it("makes one object for several programs that declare its name at the same time, and tells the others who has it", async () => {
  const programs = ["one", "two", "three"];
  const urnOf = (program: string, type: string) => `urn:pulumi:dev::${program}::ramet:index:${type}::same`;
  for (const [type, inputs, kind] of [
    ["ApiKey", { serviceAccountName: "default" }, apiKeyKind],
    ["NamedSnapshot", { from, recipe: [secretFile] }, namedSnapshotKind],
  ] as const) {
    const made = await Promise.allSettled(programs.map((program) => plugin.create(urnOf(program, type), inputs)));
    const { metadata } = await client.of<KubeObject>(kind).get({ namespace, name: "same" });
    const owner = metadata.annotations?.["ramet.dev/pulumi-resource"] ?? "";
    expect(owner).toMatch(/^acme\/(one|two|three)\/dev\/same$/);
    for (const [at, one] of made.entries()) {
      if (owner === `acme/${programs[at]}/dev/same`) expect(one).toMatchObject({ status: "fulfilled" });
      // At that moment, another one that is refused later may have been seen.
      else
        expect(String((one as PromiseRejectedResult).reason)).toMatch(
          /same(-recipe)? is declared by acme\/\w+\/dev\/same/,
        );
    }
    if (kind !== namedSnapshotKind) continue;
    const recipeOf = await client.resource(coreResources.secrets).get({ namespace, name: "same-recipe" });
    expect(recipeOf.metadata.annotations).toMatchObject({ "ramet.dev/pulumi-resource": owner });
  }
});

it("makes a clone and an API key, whose text is a secret, and waits for a sandbox", async () => {
  const clone = await plugin.create(urn("SandboxClone", "dev"), { from: "data", ports: [8000], publicPorts: [8000] });
  expect(clone.outputs).toMatchObject({
    url: expect.stringMatching(/^http:\/\/8000-default--dev\.localhost:\d+$/) as string,
  });
  const { annotations } = (await client.of(sandboxKind).get({ namespace, name: "dev" })).metadata;
  expect(annotations).toMatchObject({ "ramet.dev/public-ports": "8000" });
  expect(await plugin.diff(urn("SandboxClone", "dev"), clone, { from: "data@1" })).toMatchObject({
    replaces: ["from", "ports"],
  });
  const ready = await plugin.create(urn("Readiness", "dev"), { kind: "Sandbox" });
  expect(ready).toMatchObject({ id: "Sandbox/default/dev" });
  const seen = { ...ready, outputs: { ...ready.outputs, uid: "that of an earlier sandbox" } };
  expect(await plugin.read(urn("Readiness", "dev"), seen.id, seen)).toBeUndefined();
  expect(await plugin.diff(urn("Readiness", "dev"), seen, { kind: "Sandbox", uid: "another" })).toMatchObject({
    details: ["~ uid"],
  });
  // As if the Kubernetes provider had declared them in another cluster.
  for (const elsewhere of [{ uid: "that of another sandbox" }, { name: "elsewhere" }])
    await expect(plugin.create(urn("Readiness", "dev"), { kind: "Sandbox", ...elsewhere })).rejects.toThrow(
      /^The cluster of Ramet's provider does not have the Sandbox default\/\w+ that the program has declared/,
    );
  const key = await plugin.create(urn("ApiKey", "agents"), { serviceAccountName: "default" });
  expect(key.outputs["key"]).toEqual(secret(expect.stringMatching(/^e2b_/) as string));
  const limited = { serviceAccountName: "default", limits: { sandboxes: 3 } };
  expect(await plugin.diff(urn("ApiKey", "agents"), key, limited)).toMatchObject({
    details: ["+ limits"],
    replaces: [],
  });
  const updated = await plugin.update(urn("ApiKey", "agents"), key, limited);
  expect(updated.outputs["key"]).toEqual(key.outputs["key"]);
  await plugin.delete(urn("ApiKey", "agents"), updated);
  expect(await client.of(apiKeyKind).find({ namespace, name: "agents" })).toBeUndefined();
  expect(await plugin.read(urn("Readiness", "dev"), ready.id, ready)).toBeDefined();
  await plugin.delete(urn("SandboxClone", "dev"), clone);
  expect(await plugin.read(urn("Readiness", "dev"), ready.id, ready)).toBeUndefined();
  expect(await client.of(sandboxKind).find({ namespace, name: "dev" })).toBeUndefined();
});

it("serves a program in TypeScript with a Provider, which takes over its state of dynamic resources", async () => {
  const { kubeconfig } = cluster.directory;
  const configuration = { "program:kubeconfig": kubeconfig, "program:token": token };
  const secretKeys = ["program:token"];
  const world = await openProgram("test/program/programs/provided", { kubeconfig, configuration, secretKeys });
  try {
    const before = await world.engine.up();
    expect(before).toMatchObject({ succeeded: true, outputs: { reference: "own-data@1" } });
    const engine = world.engine.with({ configuration: { ...configuration, "program:ownProvider": "true" } });
    const moved = await engine.up();
    expect(moved.steps.filter(({ operation }) => operation !== "same").map(({ name }) => name)).toEqual(["cluster"]);
    expect(moved.outputs).toEqual(before.outputs);
    expect(await world.state()).not.toContain("pulumi-nodejs:dynamic");
    await world.edit("echo 1", "echo 2");
    const changed = await engine.up();
    expect(changed).toMatchObject({ succeeded: true, outputs: { reference: "own-data@2" } });
    expect(await engine.up()).toMatchObject({ succeeded: true, text: "" });
    expect(await engine.destroy()).toMatchObject({ succeeded: true });
    expect(await client.of(namedSnapshotKind).find({ namespace, name: "own-data" })).toBeUndefined();
  } finally {
    await world.remove();
  }
});

it("declares the components of the example in YAML, which waits for its pool", async () => {
  const world = await openProgram("examples/yaml", { kubeconfig: cluster.directory.kubeconfig });
  try {
    const preview = await world.engine.preview();
    expect(preview).toMatchObject({ succeeded: true, outputs: { reference: unknown } });
    const up = await world.engine.up();
    expect(up).toMatchObject({ succeeded: true, outputs: { reference: "python-data@1" } });
    const made = up.steps.map(({ type, name }) => `${name} ${type}`);
    expect(made.toSorted()).toEqual([
      "pool kubernetes:agents.kruise.io/v1alpha1:SandboxSet",
      "pool ramet:index:SandboxSet",
      "pool-ready ramet:index:Readiness",
      "program-test pulumi:pulumi:Stack",
      "python kubernetes:agents.kruise.io/v1alpha1:SandboxTemplate",
      "python ramet:index:SandboxTemplate",
      "python-data ramet:index:NamedSnapshot",
    ]);
    expect((await client.of(sandboxSetKind).get({ namespace, name: "pool" })).status).toMatchObject({
      availableReplicas: 2,
    });
    expect(await world.engine.up()).toMatchObject({ succeeded: true, text: "" });
    expect(await world.engine.destroy()).toMatchObject({ succeeded: true });
  } finally {
    await world.remove();
  }
});

it.each([
  [
    "ramet:SandboxTemplate",
    { image: "python", mounts: { "/data": {} } },
    /The mount \/data has no volume\. Set exactly one/,
  ],
  [
    "ramet:SandboxTemplate",
    { imagee: "a" },
    /imagee is not an argument of .*, and the argument image of .* is missing \[Inv/,
  ],
  [
    "ramet:RametRuntime",
    { mode: "${other.key}" },
    /runtime: mode is not known yet\. Use a value of the program itself/,
  ],
  ["ramet:RametRuntime", { mode: "install" }, /controllers already run in this cluster.* \[AlreadyExists\]/],
])("refuses in a preview, with the error of programs in TypeScript: %s %j", async (type, properties, message) => {
  const world = await openProgram("examples/yaml", { kubeconfig: cluster.directory.kubeconfig });
  const other = { type: "ramet:ApiKey", properties: { serviceAccountName: "default" } };
  const resources = { other, runtime: { type, properties } };
  await writeFile(join(world.program, "Pulumi.yaml"), JSON.stringify({ name: "bad", runtime: "yaml", resources }));
  try {
    expect(await world.engine.preview()).toMatchObject({
      succeeded: false,
      text: expect.stringMatching(message) as string,
    });
  } finally {
    await world.remove();
  }
});

it("refuses a component in a preview that does not know the settings of its provider, as Pulumi's engine does", async () => {
  const world = await openProgram("examples/yaml", { kubeconfig: cluster.directory.kubeconfig });
  const resources = {
    other: { type: "ramet:ApiKey", properties: { serviceAccountName: "default" } },
    cluster: { type: "pulumi:providers:ramet", properties: { kubeconfig: "${other.key}" } },
    later: { type: "ramet:NamedSnapshot", properties: { from, recipe: [] } },
  };
  const python = { type: "ramet:SandboxTemplate", properties: { image: "python" } };
  const preview = async (declared: Values) => {
    const program = { name: "new", runtime: "yaml", resources: declared };
    await writeFile(join(world.program, "Pulumi.yaml"), JSON.stringify(program));
    return world.engine.preview();
  };
  try {
    expect(await preview(resources)).toMatchObject({ succeeded: true });
    const refused = await preview({ ...resources, python });
    expect(refused.text).toContain("cannot construct components if the provider is configured with unknown values");
    expect(refused.succeeded).toBe(false);
  } finally {
    await world.remove();
  }
});

it("refuses to continue in another cluster, unless the first one is forgotten", async () => {
  const kubeconfig = await readFile(other.kubeconfigPath, "utf8");
  const { uid } = (await client.resource(coreResources.namespaces).get({ name: "kube-system" })).metadata;
  expect(data.outputs["cluster"]).toBe(uid);
  await plugin.configure({ kubeconfig });
  const elsewhere = new RegExp(`data is in another cluster: .*${uid}.*ramet:forgetCluster ${uid} \\[Conflict\\]$`);
  const request = { from, recipe };
  await expect(plugin.diff(snapshot("data"), data, request)).rejects.toThrow(elsewhere);
  await expect(plugin.update(snapshot("data"), data, request)).rejects.toThrow(elsewhere);
  await expect(plugin.read(snapshot("data"), data.id, data)).rejects.toThrow(elsewhere);
  await expect(plugin.delete(snapshot("data"), data)).rejects.toThrow(elsewhere);
  await plugin.configure({ kubeconfig, forgetCluster: uid });
  expect(await plugin.diff(snapshot("data"), data, request)).toMatchObject({ changes: true, replaces: ["cluster"] });
  expect(await plugin.read(snapshot("data"), data.id, data)).toBeUndefined();
  await plugin.delete(snapshot("data"), data);
  expect(await client.of(namedSnapshotKind).find({ namespace, name: "data" })).toBeDefined();
});

it("previews while the cluster does not exist yet, and changes nothing then", async () => {
  await plugin.configure({ kubeconfig: "04da6b54-80e4-46f7-96ec-b56ff0331ba9" });
  const { outputs } = await plugin.create(snapshot("new"), { from, recipe: [] }, { preview: true });
  expect(outputs).toMatchObject({ digest: "04da6b54-80e4-46f7-96ec-b56ff0331ba9" });
  await expect(plugin.create(snapshot("new"), { from, recipe: [] })).rejects.toThrow(/settings are not known yet/);
});

it("ends waits when the engine cancels; the next run continues, and deletes the object", async () => {
  await plugin.stop();
  plugin = await start();
  const slow = { from, recipe: [{ run: "sleep 3" }] };
  plugin.onLine = (line) => {
    if (line.includes("Step 1 of 1")) void plugin.cancel();
  };
  const canceled = plugin.create(snapshot("slow"), slow).catch((error: unknown) => error);
  expect(await canceled).toMatchObject({ name: "InitError", id: "default/slow", outputs: { from } });
  await plugin.stop();
  plugin = await start();
  const state = await plugin.create(snapshot("slow"), slow);
  expect(state.outputs).toMatchObject({ version: 1 });
  await plugin.delete(snapshot("slow"), state);
  expect(await client.of(namedSnapshotKind).find({ namespace, name: "slow" })).toBeUndefined();
});

it("ends when the engine has gone", async () => {
  await plugin.loseEngine();
  expect(plugin.child.exitCode).toBe(0);
});
