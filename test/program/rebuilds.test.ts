import { afterAll, beforeAll, expect, it } from "vitest";
import * as z from "zod";
import { NamedSnapshot, namedSnapshotKind } from "../../src/api/kinds/named-snapshot.ts";
import { sandboxTemplateKind } from "../../src/api/kinds/sandbox-template.ts";
import { ObjectMeta } from "../../src/kube/object.ts";
import type { ResourceClient } from "../../src/kube/resource-client.ts";
import { coreResources, refOf } from "../../src/kube/resource-ref.ts";
import { TestCluster } from "../cluster/local-cluster.ts";
import { killed, ProviderWorld, type Kept } from "./provider-world.ts";

/** Which changes rebuild a named snapshot, and whether an update waits for the right build. */
const namespace = "default";
const template = {
  template: { spec: { containers: [{ name: "main", image: "python", command: ["sleep", "infinity"] }] } },
};

let cluster: TestCluster;
let world: ProviderWorld;

beforeAll(async () => {
  cluster = await TestCluster.create();
  await cluster.up();
  world = await ProviderWorld.open({ kubeconfig: cluster.directory.kubeconfig });
  await applyTemplate(template);
});

afterAll(async () => {
  await world.close();
  await cluster.remove();
});

it("waits for the build that a changed secret causes", async () => {
  const first = await world.up("namedSnapshot", withSecret("one"));
  expect(first.outputs).toMatchObject({ version: 1, digest: first.inputs["digest"] });
  const changed = await world.up("namedSnapshot", withSecret("two"), first);
  expect(changed.outputs).toMatchObject({ version: 2, digest: changed.inputs["digest"] });
  const back = await world.up("namedSnapshot", withSecret("one"), changed);
  expect(back.outputs).toMatchObject({ version: 1, digest: first.outputs["digest"] });
});

it("reports inputs in the cluster that differ from the program's", async () => {
  const first = await world.up("namedSnapshot", requestFor("drifted", [{ run: "true" }]));
  await applyTemplate({ ...template, persistentContents: ["filesystem"] });
  await until("drifted", ({ status }) => status?.version === 2);
  await expect(world.up("namedSnapshot", requestFor("drifted", [{ run: "true" }]), first)).rejects.toThrow(
    /Version 2 of the snapshot drifted was built from other inputs than the program's.*pulumi refresh/,
  );
  await applyTemplate(template);
  const repaired = await world.up("namedSnapshot", requestFor("drifted", [{ run: "true" }]), first);
  expect(repaired.outputs).toMatchObject({ version: 1, digest: first.outputs["digest"] });
});

it("retries a failed build even if only the cluster knows all inputs", async () => {
  await cluster.createSandbox("running", "import time\ntime.sleep(3600)");
  const request = {
    ...requestFor("opaque", [{ run: "exit 3" }]),
    from: { sandbox: { name: "running" } },
    source: null,
  };
  const failed = (await world.up("namedSnapshot", request).catch((error: unknown) => error)) as Pick<Kept, "outputs">;
  const { build } = await statusOf("opaque");
  const old = { id: "default/opaque", inputs: request, outputs: failed.outputs };
  await expect(world.up("namedSnapshot", request, old)).rejects.toThrow(/opaque was not built/);
  const again = (await statusOf("opaque")).build;
  expect(again).toMatchObject({ digest: build?.digest, failure: { step: 1 } });
  expect(again?.startedAt).not.toBe(build?.startedAt);
});

it("detects an edited or deleted recipe Secret and restores it", async () => {
  const request = withSecret("one", "drifting");
  const kept = await world.up("namedSnapshot", request);
  expect((await world.refresh(kept))?.outputs).toEqual(kept.outputs);
  const secrets = (await cluster.client()).resource(coreResources.secrets, (value) => Secret.parse(value));
  const at = { namespace, name: "drifting-recipe" };
  const before = await secrets.get(at);
  const edits = [() => secrets.mergePatch(at, { data: { etc_token: "dHdv" } }), () => secrets.delete(at)];
  for (const edit of edits) {
    await edit();
    const seen = (await world.refresh(kept)) ?? kept;
    expect(await world.preview("namedSnapshot", request, seen)).toMatchObject({ changes: true, replaces: [] });
    expect(world.lines.join("\n")).toMatch(/drifting: secrets changes/);
    const again = await world.up("namedSnapshot", request, seen);
    expect(again.outputs).toMatchObject({ version: 1, digest: kept.outputs["digest"] });
    expect((await secrets.get(at)).data).toEqual(before.data);
  }
});

it("is updated after a rename of stack, project or resource, and not taken from another owner", async () => {
  const kept = await world.up("namedSnapshot", withSecret("one", "renamed"));
  const request = { ...withSecret("two", "renamed"), owner: "organization/program/prod/other" };
  await expect(world.up("namedSnapshot", request)).rejects.toThrow(
    /is declared by organization\/program\/test\/renamed/,
  );
  const moved = await world.up("namedSnapshot", request, kept);
  expect(moved.outputs).toMatchObject({ version: 2 });
  await expect(world.up("namedSnapshot", withSecret("two", "renamed"))).rejects.toThrow(/is declared by .*prod\/other/);
  await world.delete(moved);
  await expect.poll(() => world.refresh(moved)).toBeUndefined();
});

it("continues with a build with secrets whose first run was killed before the state was written", async () => {
  const request = withSecret("one", "killed");
  const slow = { ...request, recipe: [...(request["recipe"] as object[]), { run: "sleep 2" }] };
  world.onLine = (line) => {
    if (line.includes("Step 2 of 2")) void world.kill();
  };
  await expect(world.up("namedSnapshot", slow)).rejects.toMatchObject(killed);
  world.onLine = () => undefined;
  await world.restart();
  const next = await world.up("namedSnapshot", slow);
  expect(next.outputs).toMatchObject({ version: 1, digest: next.inputs["digest"] });
  expect(world.lines.join("\n")).not.toMatch(/Starting the sandbox/);
  // Another owner's Secret is not used.
  const theirs = { ...slow, owner: "organization/other/test/killed" };
  await expect(world.up("namedSnapshot", theirs)).rejects.toThrow(/is declared by/);
});

function requestFor(name: string, recipe: object[]): Kept["inputs"] {
  const owner = `organization/program/test/${name}`;
  return { name, namespace, owner, from: { template: { name: "base" } }, source: { template }, recipe, timeout };
}

function withSecret(text: string, name = "data"): Kept["inputs"] {
  const copy = { path: "/etc/token", secretKeyRef: { name: `${name}-recipe`, key: "etc_token" } };
  return { ...requestFor(name, [{ copy }]), secrets: { etc_token: text }, digestKey: "" };
}

const timeout = "2 minutes";
const Secret = z.looseObject({ metadata: ObjectMeta, data: z.record(z.string(), z.string()) });

async function applyTemplate(spec: object): Promise<void> {
  const { apiVersion } = sandboxTemplateKind;
  const manifest = { apiVersion, kind: "SandboxTemplate", metadata: { name: "base", namespace }, spec };
  await (await cluster.client()).resource(refOf(sandboxTemplateKind)).apply(manifest, { fieldManager: "test" });
}

async function statusOf(name: string): Promise<NonNullable<NamedSnapshot["status"]>> {
  return (await (await snapshots()).get({ namespace, name })).status ?? {};
}

async function snapshots(): Promise<ResourceClient<NamedSnapshot>> {
  return (await cluster.client()).of(namedSnapshotKind);
}

async function until(name: string, isSo: (snapshot: NamedSnapshot) => boolean): Promise<void> {
  const read = (value: unknown): NamedSnapshot => NamedSnapshot.parse(value);
  const at = { namespace, name };
  await cluster.until(refOf(namedSnapshotKind), at, read, (found) => found !== undefined && isSo(found));
}
