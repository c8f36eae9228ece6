import { afterAll, beforeAll, describe, expect, it } from "vitest";
import * as z from "zod";
import { acceptsDigest } from "../../src/api/keys/api-key-rules.ts";
import { apiKeyDigest, readApiKey } from "../../src/api/keys/api-key-text.ts";
import { apiKeyKind } from "../../src/api/kinds/api-key.ts";
import { runProgram } from "../../src/cli/program.ts";
import { KubeClient } from "../../src/kube/kube-client.ts";
import { coreResources } from "../../src/kube/resource-ref.ts";
import { openControlPlane, type TestControlPlane } from "../setup/control-plane.ts";
import { memoryIo } from "../setup/memory-io.ts";
import { openProgram, type ProgramWorld } from "./program-world.ts";
import { providerTexts } from "./provider-texts.ts";
import { ProviderWorld, type Kept } from "./provider-world.ts";

/** API keys of programs on a real API server, with the stand-in for Pulumi's engine. The tests of the example depend on their order. */
const namespace = "team-a";
let plane: TestControlPlane;
let client: KubeClient;

beforeAll(async () => {
  plane = await openControlPlane();
  client = new KubeClient(plane.connection);
  const metadata = { name: namespace };
  await client.resource(coreResources.namespaces).create({ apiVersion: "v1", kind: "Namespace", metadata });
});
afterAll(async () => {
  await client.close();
  await plane.stop();
});

const keys = () => client.of(apiKeyKind);

async function accepts(name: string, key: unknown, now = new Date()): Promise<boolean> {
  const at = { namespace, name };
  const digest = apiKeyDigest(at, readApiKey(String(key))?.digits ?? "");
  return acceptsDigest((await keys().get(at)).spec, digest, now);
}

async function ramet(...args: string[]): Promise<number> {
  const io = memoryIo({ environment: { HOME: "/nowhere", KUBECONFIG: plane.kubeconfigPath } });
  return runProgram(io, [...args, "-n", namespace]);
}

describe("the example", () => {
  let world: ProgramWorld;
  let key: string;

  beforeAll(async () => {
    world = await openProgram("examples/api-key", { kubeconfig: plane.kubeconfigPath });
  });
  afterAll(() => world.remove());

  it("makes a key whose text is only in the state, encrypted, and where the program puts it", async () => {
    const preview = await world.engine.preview();
    expect(preview).toMatchObject({
      succeeded: true,
      text: expect.stringContaining("+ agents  ApiKey  create") as string,
    });
    const up = await world.engine.up();
    expect(up.succeeded, up.text).toBe(true);
    key = z.string().parse(up.outputs["apiKey"]);
    expect(key).toMatch(/^e2b_[0-9a-f]{48}$/);
    expect(await accepts("agents", key)).toBe(true);
    expect(await secretOfProgram()).toBe(key);
    const secret = key.slice(-32);
    for (const seen of [await world.state(), up.text, preview.text, JSON.stringify(await keys().list())])
      expect(seen).not.toContain(secret);
    expect((await keys().get({ namespace, name: "agents" })).spec).toMatchObject({
      serviceAccountName: "agents",
      limits: { sandboxes: 20, snapshotBytes: "20Gi" },
    });
  });

  it("serializes its provider as the pinned text", async () => {
    expect(await world.state()).toContain(JSON.stringify(providerTexts.apiKey));
  });

  it("keeps the key when nothing or only a limit changes", async () => {
    expect(await world.engine.up()).toMatchObject({ succeeded: true, text: "" });
    await world.edit('{ sandboxes: 20, snapshotBytes: "20Gi" }', "{ requestsPerSecond: 5 }");
    const up = await world.engine.up();
    expect([up.outputs["apiKey"], up.text]).toEqual([
      key,
      expect.stringContaining("~ agents  ApiKey  update  [limits]"),
    ]);
    const { spec } = await keys().get({ namespace, name: "agents" });
    expect(spec.limits).toEqual({ requestsPerSecond: 5 });
    expect(await accepts("agents", key)).toBe(true);
  });

  it("replaces the key with another text for rotate, and lets the previous one work for the grace period", async () => {
    await world.edit('rotate: "2030-01"', 'rotate: "2030-02"');
    const preview = await world.engine.preview();
    expect(preview.text).toContain("+- agents  ApiKey  replace  [rotate]");
    const previous = key;
    const up = await world.engine.up();
    key = z.string().parse(up.outputs["apiKey"]);
    expect(key).not.toBe(previous);
    expect(await secretOfProgram()).toBe(key);
    const inHours = (hours: number) => new Date(Date.now() + hours * 3_600_000);
    const both = async (hours: number) => [
      await accepts("agents", previous, inHours(hours)),
      await accepts("agents", key, inHours(hours)),
    ];
    expect([await both(0), await both(47), await both(49)]).toEqual([
      [true, true],
      [true, true],
      [false, true],
    ]);
    expect(await world.engine.up()).toMatchObject({ succeeded: true, text: "" });
  });

  it("does not bring back a key that was revoked, and makes a new one after a refresh", async () => {
    expect(await ramet("key", "revoke", "agents")).toBe(0);
    await world.edit("requestsPerSecond: 5", "requestsPerSecond: 6");
    const refused = await world.engine.up();
    expect(refused).toMatchObject({ succeeded: false });
    expect(refused.text).toMatch(/The key team-a\/agents was revoked\. To make a new key, run: pulumi up --refresh/);
    expect(await keys().find({ namespace, name: "agents" })).toBeUndefined();
    await world.engine.refresh();
    const up = await world.engine.up();
    expect(up.succeeded, up.text).toBe(true);
    expect(await accepts("agents", up.outputs["apiKey"])).toBe(true);
    expect(await accepts("agents", key)).toBe(false);
    expect(await secretOfProgram()).toBe(up.outputs["apiKey"]);
  });

  it("deletes the key with the stack, also if it was rotated by hand", async () => {
    expect(await ramet("key", "rotate", "agents", "--grace", "1h")).toBe(0);
    expect(await world.engine.destroy()).toMatchObject({ succeeded: true });
    expect(await keys().find({ namespace, name: "agents" })).toBeUndefined();
  });
});

async function secretOfProgram(): Promise<string> {
  const { data } = Data.parse(await client.resource(coreResources.secrets).get({ namespace, name: "e2b" }));
  return Buffer.from(data["E2B_API_KEY"] ?? "", "base64").toString();
}

const Data = z.looseObject({ data: z.record(z.string(), z.string()) });

describe("a key", () => {
  let world: ProviderWorld;
  beforeAll(async () => (world = await ProviderWorld.open({ kubeconfig: plane.kubeconfigPath })));
  afterAll(() => world.close());

  const request = (name: string, more: object = {}): Kept["inputs"] => ({
    name,
    namespace,
    owner: `organization/program/test/${name}`,
    serviceAccountName: "agents",
    format: "e2b",
    grace: "1 hour",
    ...more,
  });
  const up = (name: string, more: object = {}, old?: Kept) => world.up("apiKey", request(name, more), old);

  it("is made again if its state was lost, and the lost one expires", async () => {
    const lost = await up("lost");
    const again = await up("lost");
    const later = new Date(Date.now() + 2 * 3_600_000);
    const seen = [lost, again].map(({ outputs }) => accepts("lost", outputs["key"], later));
    expect(await Promise.all(seen)).toEqual([false, true]);
  });

  it("is not taken from another program, and not from a user", async () => {
    await up("ours");
    const theirs = up("ours", { owner: "organization/program/other/ours" });
    await expect(theirs).rejects.toThrow("ApiKey team-a/ours is declared by organization/program/test/ours");
    await client
      .resource(coreResources.serviceAccounts)
      .apply(
        { apiVersion: "v1", kind: "ServiceAccount", metadata: { name: "agents", namespace } },
        { fieldManager: "test" },
      );
    expect(await ramet("key", "create", "by-hand", "--service-account", "agents")).toBe(0);
    await expect(up("by-hand")).rejects.toThrow("ApiKey team-a/by-hand exists, and this program does not declare it");
  });

  it("is replaced for another name, form or rotate, never before the new one exists, and changed for anything else", async () => {
    const kept = await up("kept", { rotate: "a" });
    const changes = { changes: true, deleteBeforeReplace: false };
    const preview = (more: object) => world.preview("apiKey", request("kept", { rotate: "a", ...more }), kept);
    expect(await preview({ name: "other" })).toEqual({ ...changes, replaces: ["name"] });
    expect(await preview({ format: "plain" })).toEqual({ ...changes, replaces: ["format"] });
    expect(await preview({ rotate: "b" })).toEqual({ ...changes, replaces: ["rotate"] });
    expect(await preview({ serviceAccountName: "others" })).toEqual({ ...changes, replaces: [] });
    expect(await preview({ limits: { sandboxes: 1 } })).toEqual({ ...changes, replaces: [] });
    expect(await preview({ grace: "2 days" })).toMatchObject({ changes: false });
  });

  it("keeps a value that was added by hand when its limits change, and shows what was changed by hand", async () => {
    const kept = await up("mixed", { limits: { sandboxes: 1 } });
    await ramet("key", "rotate", "mixed", "--grace", "1h");
    const more = { limits: { sandboxes: 2 } };
    const changed = await up("mixed", more, kept);
    expect((await keys().get({ namespace, name: "mixed" })).spec).toMatchObject({
      digests: [{}, { expiresAt: expect.any(String) as string }],
      limits: { sandboxes: 2 },
    });
    await keys().mergePatch({ namespace, name: "mixed" }, { spec: { limits: { sandboxes: 9 } } });
    const seen = await world.refresh(changed);
    expect(seen?.outputs).toMatchObject({ limits: { sandboxes: 9 }, key: kept.outputs["key"] });
    expect(await world.preview("apiKey", request("mixed", more), seen ?? changed)).toMatchObject({ changes: true });
    await ramet("key", "rotate", "mixed", "--grace", "0");
    expect(await world.refresh(changed)).toBeUndefined();
  });

  it.each([
    [{ serviceAccountName: "a/b" }, "serviceAccountName: must be the name of a service account"],
    [{ limits: { requestsPerSecond: 0 } }, "limits.requestsPerSecond: "],
    [{ limits: { snapshotBytes: "20GB" } }, "limits.snapshotBytes: must be a quantity like 20Gi"],
    [{ format: "s0" }, "format: "],
    [{ grace: "soon" }, "grace: "],
  ])("refuses %j in a preview", async (more, message) => {
    await expect(up("invalid", more)).rejects.toThrow(message);
    expect(await keys().find({ namespace, name: "invalid" })).toBeUndefined();
  });
});
