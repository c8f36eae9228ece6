import { copyFile, readdir } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { KubeClient } from "../../src/kube/kube-client.ts";
import { ProviderPlugin } from "../engine/provider-plugin.ts";
import { StateFile } from "../engine/state-file.ts";
import { openControlPlane, type TestControlPlane } from "../setup/control-plane.ts";
import { openProgram, type ProgramWorld } from "./program-world.ts";
import { upgradeOptions } from "./upgrade-options.ts";

/**
 * Continues with states that earlier versions of the package left: the new version replaces and builds nothing.
 * `states/keep.ts` records one state of each version.
 */
const states = join(import.meta.dirname, "states");
const versions = (await readdir(states))
  .filter((name) => name.endsWith(".json"))
  .map((name) => name.slice(0, -".json".length));

let plane: TestControlPlane;
let client: KubeClient;
const worlds: ProgramWorld[] = [];

beforeAll(async () => {
  plane = await openControlPlane();
  client = new KubeClient(plane.connection);
});

afterAll(async () => {
  for (const world of worlds) await world.remove();
  await client.close();
  await plane.stop();
});

it("has a recorded state", () => {
  expect(versions).toContain("0.1.0");
});

it.each(versions)("changes nothing in a state of %s, and previews a change of the program", async (version) => {
  const world = await open(version);
  const engine = world.engine.with({ kubeconfig: await world.unreachable(plane.kubeconfigPath) });
  const unchanged = await engine.preview();
  expect(unchanged.succeeded).toBe(true);
  // Only who waits for a set has changed since the first version.
  const waits = ["~ pool  SandboxSet  update  [metadata]", "+ pool-ready  Readiness  create"];
  expect(unchanged.text.split("\n").filter((line) => line !== "" && !waits.includes(line))).toEqual([]);
  await world.edit("echo one", "echo two");
  const preview = await engine.preview();
  expect(preview.text).toMatch(
    /data: recipe\[1\] .* => .*; rebuilds from step 2 of 3; according to the state, because the cluster is unreadable: /,
  );
  expect(preview.steps.filter(({ operation }) => operation === "replace")).toEqual([]);
});

it.each(versions)("handles missing objects of a state of %s, and destroys twice", async (version) => {
  const world = await open(version);
  const destroyed = await world.engine.destroy();
  expect(destroyed.text).not.toMatch(/error/i);
  expect(destroyed.succeeded).toBe(true);
  const again = await open(version);
  const refreshed = await again.engine.refresh();
  const deleted = refreshed.steps.filter(({ operation }) => operation === "delete").map(({ name }) => name);
  expect(deleted.toSorted()).toEqual(["base", "child", "data", "dev", "pool"]);
});

it.each(versions)(
  "finds nothing to change in a state of %s of dynamic resources, as the provider process",
  async (version) => {
    const plugin = await ProviderPlugin.start(process.env, { kubeconfig: plane.kubeconfigPath });
    try {
      const kept = new StateFile(join(states, `${version}.json`), "a passphrase").list();
      const copy = { path: "/etc/token", mode: "0600", secret: upgradeOptions.configuration["program:token"] };
      const recipe = [{ copy }, { run: "echo one > /data", timeoutSeconds: 30 }, { waitFor: { file: "/data" } }];
      const requests = {
        data: { from: { template: "base" }, recipe, keepVersions: 3 },
        child: { from: { snapshot: "data" }, recipe: [{ run: "test -s /data" }], contents: ["filesystem"] },
        dev: { from: "child", lifetime: "8 hours" },
      };
      for (const [name, request] of Object.entries(requests)) {
        const state = kept.find((one) => one.name === name && one.type.startsWith("pulumi-nodejs:"))!;
        const urn = state.urn.replace("pulumi-nodejs:dynamic/ramet:", "ramet:index:");
        const before = { ...state, inputs: state.outputs };
        expect(await plugin.diff(urn, before, request), name).toEqual({ changes: false, replaces: [], details: [] });
      }
    } finally {
      await plugin.stop();
    }
  },
);

async function open(version: string): Promise<ProgramWorld> {
  const { kubeconfigPath: kubeconfig } = plane;
  const world = await openProgram("test/program/programs/upgrade", { kubeconfig, ...upgradeOptions });
  worlds.push(world);
  await copyFile(join(states, `${version}.json`), world.engine.statePath);
  return world;
}
