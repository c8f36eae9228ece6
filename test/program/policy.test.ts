import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, it } from "vitest";
import { PolicyPackProcess } from "../engine/policy-pack-process.ts";
import { nowhere } from "../setup/nowhere.ts";
import { openProgram, type ProgramWorld } from "./program-world.ts";

/**
 * The policy pack of the examples, loaded by Pulumi's process for packs. No cluster is needed. The last test changes
 * the pack's settings.
 */
const policyPack = fileURLToPath(new URL("../../examples/review/policy", import.meta.url));
let directory: string;
let world: ProgramWorld;
let pack: PolicyPackProcess;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "ramet-policy-"));
  const kubeconfig = join(directory, "kubeconfig");
  await writeFile(kubeconfig, nowhere);
  world = await openProgram("test/program/programs/guardrails", { kubeconfig });
  pack = await PolicyPackProcess.start(policyPack, () => undefined);
});

afterAll(async () => {
  await pack.stop();
  await world.remove();
  await rm(directory, { recursive: true, force: true });
});

it("is loaded by Pulumi and describes its settings", async () => {
  const { name, policies } = await pack.describe();
  expect(name).toBe("platform");
  expect(policies).toEqual([
    { name: "ramet-retention", settings: ["allowDelete", "exempt", "maxVersions", "minVersions"] },
    { name: "ramet-private-store", settings: ["exempt"] },
    { name: "ramet-pinned-images", settings: ["allowed", "digestOnly", "exempt"] },
    { name: "ramet-recipe-secrets", settings: ["exempt", "patterns"] },
    { name: "ramet-bounded-replicas", settings: ["exempt", "maxReplicas"] },
    { name: "ramet-bounded-lifetimes", settings: ["exempt", "maxLifetime"] },
  ]);
});

it("fails a preview and reports all violations without repeating a secret", async () => {
  const { succeeded, lines, text } = await world.engine.with({ policyPack }).preview();
  expect(succeeded).toBe(false);
  const found = lines.flatMap((line) => /^error: (\S+): \[(\S+)\]/.exec(line)?.slice(1, 3).join(" ") ?? []);
  expect(found.sort()).toEqual([
    "data ramet-recipe-secrets",
    "data ramet-retention",
    "dev ramet-bounded-lifetimes",
    "pool ramet-bounded-replicas",
    "python ramet-pinned-images",
    "store ramet-private-store",
  ]);
  expect(text).toContain("replicas is 51; the maximum is 50");
  expect(text).toContain("lifetime is not set; the maximum is 24 hours");
  expect(text).toContain("step 2 contains a password in a URL");
  expect(lines.filter((line) => line.includes("[ramet-")).join("\n")).not.toContain("hunter22");
});

it("stops an update before anything is created", async () => {
  const { succeeded, lines } = await world.engine.with({ policyPack }).up();
  expect(succeeded).toBe(false);
  expect(lines.join("\n")).toContain("error: pool: [ramet-bounded-replicas]");
  await expect(world.state()).rejects.toThrow("ENOENT");
});

it("applies the settings of a stack and reports unknown inputs", async () => {
  const pool = {
    urn: "urn:pulumi:s::p::t::pool",
    type: "kubernetes:agents.kruise.io/v1alpha1:SandboxSet",
    name: "pool",
  };
  const asking = (replicas: unknown) => ({
    ...pool,
    inputs: { apiVersion: "agents.kruise.io/v1alpha1", kind: "SandboxSet", spec: { replicas } },
  });
  expect(await pack.analyze(asking(50))).toEqual([]);
  await pack.configure({ "ramet-bounded-replicas": { mandatory: false, settings: { maxReplicas: 5 } } });
  expect(await pack.analyze(asking(50))).toEqual([
    expect.objectContaining({ policy: "ramet-bounded-replicas", isMandatory: false }),
  ]);
  const [unsure] = await pack.analyze(asking(unknownValue));
  expect(unsure).toMatchObject({ policy: "ramet-bounded-replicas", isMandatory: false });
  expect(unsure?.message).toContain("during preview");
  await pack.configure({ "ramet-bounded-replicas": { mandatory: true, settings: { mostReplica: 5 } } });
  await expect(pack.analyze(asking(50))).rejects.toThrow("Invalid settings of ramet-bounded-replicas");
});

/** Pulumi's placeholder for a value that a preview does not know (`sdk/nodejs/runtime/rpc.ts`). */
const unknownValue = "04da6b54-80e4-46f7-96ec-b56ff0331ba9";
