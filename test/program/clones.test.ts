import { afterAll, beforeAll, expect, it } from "vitest";
import { refOf } from "../../src/kube/resource-ref.ts";
import { type Sandbox, sandboxKind } from "../../src/api/kinds/sandbox.ts";
import { sandboxTemplateKind } from "../../src/api/kinds/sandbox-template.ts";
import { TestCluster } from "../cluster/local-cluster.ts";
import { answerOf } from "../engine/answer-of.ts";
import { ProviderWorld, type Kept } from "./provider-world.ts";

/** Tests clones of snapshots that the program knows only by name, and the fields that an update keeps. */
const namespace = "default";
const template = {
  template: { spec: { containers: [{ name: "main", image: "python", command: ["sleep", "infinity"] }] } },
};
const recipe = [
  { run: "mkdir /srv/web && echo hello > /srv/web/index.html" },
  { start: "cd /srv/web && exec python3 -m http.server 8000" },
  { waitFor: { port: 8000 } },
];

let cluster: TestCluster;
let world: ProviderWorld;
let data: Kept;

beforeAll(async () => {
  cluster = await TestCluster.create();
  await cluster.up();
  world = await ProviderWorld.open({ kubeconfig: cluster.directory.kubeconfig });
  const { apiVersion } = sandboxTemplateKind;
  const manifest = { apiVersion, kind: "SandboxTemplate", metadata: { name: "base", namespace }, spec: template };
  await (await cluster.client()).resource(refOf(sandboxTemplateKind)).create(manifest);
  data = await world.up(
    "namedSnapshot",
    requestFor("data", { from: { template: { name: "base" } }, source: { template } }),
  );
});

afterAll(async () => {
  await world.close();
  await cluster.remove();
});

it("opens its ports for every kind of source, and uses the first in its url", async () => {
  const source = { snapshot: { digest: data.outputs["digest"] } };
  await world.up("namedSnapshot", requestFor("child", { from: { snapshot: { name: "data" } }, source, recipe: [] }));
  for (const from of ["data", "data@1", "child", data.outputs["checkpointId"]]) {
    const clone = await world.up("sandboxClone", cloneRequest("dev", { from, publicPorts: [8000] }));
    expect(clone.outputs["url"]).toMatch(/^http:\/\/8000-default--dev\.localhost:/);
    expect(await answerOf(String(clone.outputs["url"]))).toBe("hello\n");
    await world.delete(clone);
  }
});

it("rejects a source without a template to add the ports to", async () => {
  const nothing = world.up("sandboxClone", cloneRequest("none", { from: "nothing" }));
  await expect(nothing).rejects.toThrow(/No checkpoint or named snapshot nothing exists in the namespace default/);
  const later = world.up("sandboxClone", cloneRequest("none", { from: "data@7" }));
  await expect(later).rejects.toThrow(/data has no version data@7.*Kept versions: 1/);
});

it("keeps its template and ports when its lifetime and its stack's name change, even if the program's template changed", async () => {
  const dev = await world.up("sandboxClone", cloneRequest("dev", { template, portsFollow: true }));
  const before = await sandbox("dev");
  const later = { template: { spec: { containers: [{ name: "main", image: "another" }] } } };
  const owner = "organization/program/prod/dev";
  const request = cloneRequest("dev", {
    template: later,
    ports: [9000],
    portsFollow: true,
    lifetime: "8 hours",
    owner,
  });
  expect(await world.preview("sandboxClone", request, dev)).toMatchObject({ changes: true, replaces: [] });
  const updated = await world.up("sandboxClone", request, dev);
  expect(updated.outputs).toMatchObject({ url: dev.outputs["url"], ports: [8000] });
  const after = await sandbox("dev");
  expect(after.spec).toEqual({ ...before.spec, shutdownTime: updated.outputs["shutdownTime"] });
  expect(after.metadata.uid).toBe(before.metadata.uid);
  await world.delete(updated);
});

it("detects a changed shutdown time and reverts it", async () => {
  const request = cloneRequest("dev", { lifetime: "8 hours" });
  const dev = await world.up("sandboxClone", request);
  expect((await world.refresh(dev))?.outputs).toEqual(dev.outputs);
  const sandboxes = (await cluster.client()).resource(refOf(sandboxKind));
  await sandboxes.mergePatch({ namespace, name: "dev" }, { spec: { shutdownTime: "2199-01-01T00:00:00Z" } });
  const seen = await world.refresh(dev);
  expect(seen?.outputs).toMatchObject({ shutdownTime: "2199-01-01T00:00:00Z" });
  expect(await world.preview("sandboxClone", request, seen ?? dev)).toMatchObject({ changes: true, replaces: [] });
  const back = await world.up("sandboxClone", request, seen);
  expect(back.outputs).toMatchObject({ lifetime: "8 hours", shutdownTime: dev.outputs["shutdownTime"] });
  await world.delete(back);
});

it("leaves alone what others have created under its name since, but takes an object that was imported", async () => {
  const request = cloneRequest("dev", {});
  const dev = await world.up("sandboxClone", request);
  const sandboxes = (await cluster.client()).of(sandboxKind);
  const at = { namespace, name: "dev" };
  await sandboxes.delete(at);
  await expect.poll(() => sandboxes.find(at)).toBeUndefined();
  const { template: own } = template;
  const { metadata } = await sandboxes.create({
    apiVersion: "agents.kruise.io/v1alpha1",
    kind: "Sandbox",
    metadata: { ...at, annotations: { "ramet.dev/restore-from": "data" } },
    spec: { template: own },
  });
  expect(await world.refresh(dev)).toBeUndefined();
  await expect(world.up("sandboxClone", { ...request, lifetime: "8 hours" }, dev)).rejects.toThrow(
    /Sandbox default\/dev exists, and this program does not declare it/,
  );
  await world.delete(dev);
  expect((await sandbox("dev")).metadata.uid).toBe(metadata.uid);
  // The state of an import has its UID.
  const imported = { ...dev, outputs: { ...dev.outputs, uid: metadata.uid } };
  expect((await world.refresh(imported))?.outputs).toMatchObject({ uid: metadata.uid });
  await world.delete(imported);
  await expect.poll(() => sandboxes.find(at)).toBeUndefined();
});

function requestFor(name: string, more: object): Kept["inputs"] {
  return { name, namespace, owner: ownerOf(name), recipe, timeout: "2 minutes", ...more };
}

function cloneRequest(name: string, more: object): Kept["inputs"] {
  return { name, namespace, owner: ownerOf(name), from: "data", ports: [8000], timeout: "2 minutes", ...more };
}

function ownerOf(name: string): string {
  return `organization/program/test/${name}`;
}

async function sandbox(name: string): Promise<Sandbox> {
  const sandboxes = (await cluster.client()).of(sandboxKind);
  return sandboxes.get({ namespace, name });
}
