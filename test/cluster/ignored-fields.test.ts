import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parseAllDocuments } from "yaml";
import type { Sandbox } from "../../src/api/kinds/sandbox.ts";
import type { Condition } from "../../src/api/schema/metadata.ts";
import { findCondition } from "../../src/kube/conditions.ts";
import type { KubeObject } from "../../src/kube/object.ts";
import type { Informer } from "../../src/kube/informer.ts";
import { withoutNotices, followStatuses, writeOf } from "./counted-writes.ts";
import { inPhase, reasonOf, restoreFrom, RulesWorld, template } from "./rules-world.ts";

/** Tests the condition for fields without effect on a real API server with the real controllers, and stand-in cells. */
const world = new RulesWorld();
beforeAll(() => world.open());
afterAll(() => world.close());

type Reported = KubeObject & { status?: { conditions?: Condition[] | undefined } | undefined };

/** The condition of an object as its users see it. */
function conditionOf<T extends Reported>({ store }: Informer<T>, name: string): Condition | undefined {
  return findCondition(store.get(world.at(name))?.status?.conditions, "FieldsIgnored");
}

const patient = { timeout: 30_000, interval: 20 };
const seen = () => world.cluster.seen;
const sandboxMessage = (name: string) => conditionOf(seen().sandboxes, name)?.message;

const ignoredSpec = {
  runtimes: [{ name: "csi" }],
  upgradePolicy: { type: "CheckpointRestore" },
  lifecycle: { preUpgrade: { exec: { command: ["true"] } } },
  persistentContents: ["ip", "memory", "filesystem", "podInfo", "gpu-memory"],
};

describe("a sandbox", () => {
  it("reports its fields without effect in the write that reports its start", async () => {
    await world.inNewNamespace();
    // The first sandbox of a namespace starts slowly.
    await world.running("first");
    const written: string[] = [];
    const writes = () => {
      const ofSandbox = world.cluster
        .requests()
        .filter(({ verb, name }) => ["create", "patch", "update"].includes(verb) && name !== "first")
        .filter(({ resource }) => ["pods", "sandboxes"].includes(resource.plural));
      written.push(...ofSandbox.map(writeOf));
      return written.toSorted();
    };
    writes();
    written.length = 0;
    const statuses = followStatuses(seen().sandboxes, "a", ({ status }) =>
      status?.phase === "Pending" ? (status.message ?? "") : undefined,
    );
    await world.create("Sandbox", "a", { template, ...ignoredSpec });
    const { status } = await world.sandbox("a", inPhase("Running", "Failed"));
    statuses.stop();
    const condition = findCondition(status?.conditions, "FieldsIgnored");
    expect(condition).toMatchObject({ status: "True", reason: "NotSupported" });
    for (const path of [
      "spec.runtimes[0].name csi",
      "spec.upgradePolicy.type, spec.lifecycle",
      "spec.persistentContents[0] ip",
      "spec.persistentContents[4] gpu-memory",
    ]) {
      expect(condition?.message).toContain(path);
    }
    await expect
      .poll(() => withoutNotices(writes(), statuses, "patch sandboxes status"))
      .toEqual(["create pods", "patch sandboxes", "patch sandboxes status"]);
  });

  it("reports a field until it is removed, and writes nothing while it stays", async () => {
    const versions: string[] = [];
    const stop = seen().sandboxes.store.subscribe(({ object }) => {
      if (object.metadata.name === "a") versions.push(object.metadata.resourceVersion);
    });
    // Reconciles the sandbox without a change of its fields.
    await seen().sandboxes.resource.mergePatch(
      { namespace: world.namespace, name: "a" },
      { metadata: { annotations: { note: "1" } } },
    );
    await expect.poll(() => new Set(versions).size, patient).toBe(1);
    const { lastTransitionTime } = conditionOf(seen().sandboxes, "a")!;
    await world.patch("a", { runtimes: null, lifecycle: null, persistentContents: ["memory", "filesystem"] });
    await expect.poll(() => sandboxMessage("a"), patient).toMatch(/^spec\.upgradePolicy\.type has no effect: [^;]+;/);
    expect(conditionOf(seen().sandboxes, "a")?.lastTransitionTime).toBe(lastTransitionTime);
    await world.patch("a", { upgradePolicy: null });
    await expect.poll(() => conditionOf(seen().sandboxes, "a"), patient).toBeUndefined();
    // The user's three changes, and one status for each of the last two.
    expect(new Set(versions).size).toBe(5);
    stop();
  });

  it("reports a changed template while it runs, until the template is as before or a resume applies it", async () => {
    await world.inNewNamespace();
    await world.create("Sandbox", "a", { template, pauseStrategy: { type: "Stop" } });
    await world.sandbox("a", inPhase("Running"));
    const other = { spec: { containers: [{ name: "main", image: "python:3.14" }] } };
    await world.patch("a", { template: other });
    await expect.poll(() => sandboxMessage("a"), patient).toMatch(/^spec\.template has no effect: the Pod was created/);
    expect(conditionOf(seen().sandboxes, "a")?.reason).toBe("TemplateChanged");
    await world.patch("a", { template });
    await expect.poll(() => sandboxMessage("a"), patient).toBeUndefined();
    await world.patch("a", { template: other });
    await expect.poll(() => sandboxMessage("a"), patient).toContain("spec.template");
    await world.patch("a", { paused: true });
    await world.sandbox("a", inPhase("Paused"));
    await expect.poll(() => sandboxMessage("a"), patient).toBeUndefined();
    await world.patch("a", { paused: false });
    const { status } = await world.sandbox("a", inPhase("Running"));
    expect(findCondition(status?.conditions, "FieldsIgnored")).toBeUndefined();
  });

  it("waits with its memory for the undoing of a change that the memory cannot be resumed with", async () => {
    await world.inNewNamespace();
    await world.running("a");
    const [container] = template.spec.containers;
    const other = { spec: { containers: [{ ...container, command: ["another"] }] } };
    await world.patch("a", { template: other });
    await expect.poll(() => sandboxMessage("a"), patient).toMatch(/^spec\.template has no effect/);
    await world.patch("a", { paused: true });
    await world.sandbox("a", inPhase("Paused"));
    await world.patch("a", { paused: false });
    const { status } = await world.sandbox("a", (now) => reasonOf(now, "Ready") === "TemplateMismatch");
    expect(status?.phase).toBe("Resuming");
    expect(status?.message).toMatch(/^The sandbox cannot be resumed with its memory: .*command.*Undo the change/);
    await world.patch("a", { template });
    await world.sandbox("a", inPhase("Running"));
    expect(world.node.cells.get(world.at("a"))!.calls).toEqual(["restore"]);
    expect(sandboxMessage("a")).toBeUndefined();
  });

  it("does not report egress rules of a changed template, which apply", async () => {
    const key = "ramet.dev/egress";
    const withRules = { metadata: { annotations: { [key]: JSON.stringify({ default: "deny" }) } }, ...template };
    await world.patch("a", { template: withRules });
    // The stand-in cell refuses rules; egress.test.ts tests that a real one applies them.
    const hasRules = (now: NonNullable<Sandbox["status"]>) => reasonOf(now, "EgressApplied") !== undefined;
    const { status } = await world.sandbox("a", hasRules);
    expect(findCondition(status?.conditions, "FieldsIgnored")).toBeUndefined();
    await world.patch("a", { template: { ...withRules, spec: { containers: [{ name: "main", image: "c" }] } } });
    await expect.poll(() => sandboxMessage("a"), patient).toMatch(/^spec\.template has no effect/);
  });

  it("reports a change of the SandboxTemplate that it names, and fields of that without effect", async () => {
    await world.inNewNamespace();
    await world.create("SandboxTemplate", "t", { template, runtimes: [{ name: "agent-runtime" }] });
    await world.create("Sandbox", "a", { templateRef: { name: "t" } });
    const { status } = await world.sandbox("a", inPhase("Running"));
    expect(findCondition(status?.conditions, "FieldsIgnored")).toMatchObject({
      reason: "ReplacedByGuest",
      message: expect.stringMatching(/^SandboxTemplate t: spec\.runtimes\[0\]\.name agent-runtime has no/) as string,
    });
    const { resource } = seen().templates;
    const env = [{ name: "A", value: "2" }];
    await resource.mergePatch(
      { namespace: world.namespace, name: "t" },
      { spec: { runtimes: null, template: { spec: { containers: [{ name: "main", image: "python", env }] } } } },
    );
    await expect.poll(() => sandboxMessage("a"), patient).toMatch(/^SandboxTemplate t: spec\.template has no effect/);
  });

  it("is not reported as changed if it is a clone with the template of its checkpoint, also after a resume", async () => {
    await world.inNewNamespace();
    await world.running("a");
    const id = await world.taken("c", "a");
    await world.create("Sandbox", "b", {}, { [restoreFrom]: id });
    const running = await world.sandbox("b", inPhase("Running", "Failed"));
    expect(running.status?.phase).toBe("Running");
    expect(findCondition(running.status?.conditions, "FieldsIgnored")).toBeUndefined();
    await world.patch("b", { paused: true });
    await world.sandbox("b", inPhase("Paused"));
    await world.patch("b", { paused: false, runtimes: [{ name: "csi" }] });
    await world.sandbox("b", inPhase("Running"));
    await expect.poll(() => sandboxMessage("b"), patient).toMatch(/^spec\.runtimes\[0\]\.name csi has no effect/);
  });

  it("is reported while it is paused, too", async () => {
    await world.patch("b", { paused: true, runtimes: null });
    await world.sandbox("b", inPhase("Paused"));
    await expect.poll(() => sandboxMessage("b"), patient).toBeUndefined();
    await world.patch("b", { upgradePolicy: { type: "Recreate" } });
    await expect.poll(() => sandboxMessage("b"), patient).toMatch(/^spec\.upgradePolicy\.type has no effect/);
    await world.patch("b", { upgradePolicy: null });
    await expect.poll(() => sandboxMessage("b"), patient).toBeUndefined();
  });

  it("reports annotations and the parts of a runtime request that have no effect, without their values", async () => {
    await world.inNewNamespace();
    await world.create(
      "Sandbox",
      "a",
      { template },
      {
        "agents.kruise.io/cleanup-enabled": "true",
        "agents.kruise.io/init-runtime-request": JSON.stringify({ envVars: { A: "1" }, accessToken: "a-token" }),
      },
    );
    const { status } = await world.sandbox("a", inPhase("Running"));
    const condition = findCondition(status?.conditions, "FieldsIgnored");
    expect(condition?.message).toContain("metadata.annotations[agents.kruise.io/cleanup-enabled] has no effect");
    expect(condition?.message).toContain("[agents.kruise.io/init-runtime-request].accessToken has no effect");
    expect(condition?.message).not.toContain("a-token");
  });
});

describe("the manifests of ACS's documentation", () => {
  const file = new URL("../contract/api/manifests/acs-clone-with-checkpoint.yaml", import.meta.url);
  const manifests = parseAllDocuments(readFileSync(file, "utf8")).map(
    (document) => document.toJS() as { kind: string; metadata: { name: string }; spec: Record<string, unknown> },
  );

  it("have no fields without effect but the injection of envd, which sets and their sandboxes report", async () => {
    await world.inNewNamespace();
    const sets = manifests.filter(({ kind, metadata }) => kind === "SandboxSet" && /mem$/.test(metadata.name));
    expect(sets.length).toBe(2);
    for (const { metadata, spec } of sets) await world.create("SandboxSet", metadata.name, { ...spec, replicas: 1 });
    const message = /^spec\.template\.spec\.initContainers\[0\] has no effect: every sandbox has Ramet's guest, [^.]+$/;
    for (const { metadata } of sets) {
      await expect.poll(() => conditionOf(seen().sets, metadata.name)?.message, patient).toMatch(message);
    }
    const ofNamespace = () =>
      seen()
        .sandboxes.store.list()
        .filter(({ metadata }) => metadata.namespace === world.namespace);
    await expect
      .poll(() => ofNamespace().map(({ metadata }) => sandboxMessage(metadata.name) ?? ""), patient)
      .toEqual([expect.stringMatching(message), expect.stringMatching(message)]);
  });
});

it("reports a set's fields without effect, and those of the SandboxTemplate that it names", async () => {
  await world.inNewNamespace();
  await world.create("SandboxTemplate", "t", {
    template,
    pauseStrategy: { type: "Stop" },
    persistentContents: ["ip"],
    runtimes: [{ name: "csi" }],
  });
  await world.create("SandboxSet", "pool", { replicas: 1, templateRef: { name: "t" }, persistentContents: ["memory"] });
  await expect
    .poll(() => conditionOf(seen().sets, "pool")?.message, patient)
    .toMatch(
      /^SandboxTemplate t: spec\.pauseStrategy has no effect: .* SandboxTemplate t: spec\.runtimes\[0\]\.name csi/,
    );
  expect(conditionOf(seen().sets, "pool")?.message).not.toContain("persistentContents");
});

describe("a claim", () => {
  it("reports its fields without effect in the write that completes it", async () => {
    const claim = { namespace: world.namespace, name: "a" };
    await expect.poll(() => seen().sets.store.get(world.at("pool"))?.status?.availableReplicas, patient).toBe(1);
    world.cluster.requests();
    const statuses = followStatuses(seen().claims, "a", ({ status }) =>
      status === undefined || status.phase === "Completed" ? undefined : (status.message ?? ""),
    );
    await world.create("SandboxClaim", "a", { templateName: "pool", runtimes: [{ name: "agent-runtime" }] });
    await expect.poll(() => seen().claims.store.get(world.at("a"))?.status?.phase, patient).toBe("Completed");
    statuses.stop();
    expect(conditionOf(seen().claims, "a")).toMatchObject({ reason: "ReplacedByGuest" });
    const claimed = seen().claims.store.get(world.at("a"))?.status?.ramet?.sandboxes?.[0] ?? "";
    const writes: string[] = [];
    // A watch can show a write's effect before its response arrives.
    const counted = () => {
      const isOfClaim = (name: string | undefined) => name === "a" || name === claimed;
      const records = world.cluster
        .requests()
        .filter(({ verb, name }) => ["create", "patch", "update"].includes(verb) && isOfClaim(name));
      writes.push(...records.map(writeOf));
      return withoutNotices(writes.toSorted(), statuses, "patch sandboxclaims status");
    };
    await expect.poll(counted, patient).toEqual(["patch sandboxclaims status", "patch sandboxes"]);
    await seen().claims.resource.mergePatch(claim, { spec: { runtimes: null } });
    await expect.poll(() => conditionOf(seen().claims, "a"), patient).toBeUndefined();
    expect(seen().claims.store.get(world.at("a"))?.status?.phase).toBe("Completed");
  });
});

describe("a checkpoint", () => {
  it.each([
    ["pod-info", ["podInfo"], undefined],
    [
      "vendor",
      ["filesystem", "gpu-memory", "ip"],
      /^spec\.persistentContents\[2\] ip has no effect: .*\[1\] gpu-memory/,
    ],
  ])("%s with the contents %j is captured", async (name, persistentContents, message) => {
    await world.inNewNamespace();
    await world.running("a");
    await world.create("Checkpoint", name, { podName: "a", persistentContents });
    const { status } = await world.checkpoint(name, inPhase("Succeeded", "Failed"));
    expect(status?.phase).toBe("Succeeded");
    const condition = findCondition(status?.conditions, "FieldsIgnored");
    if (message === undefined) expect(condition).toBeUndefined();
    else expect(condition?.message).toMatch(message);
  });
});

it("reports in a named snapshot the fields of its SandboxTemplate without effect", async () => {
  await world.inNewNamespace();
  await world.create("SandboxTemplate", "t", { template, runtimes: [{ name: "csi" }], persistentContents: ["ip"] });
  await world.cluster.create({
    apiVersion: "ramet.dev/v1alpha1",
    kind: "NamedSnapshot",
    metadata: { name: "s", namespace: world.namespace },
    spec: { from: { template: { name: "t" } } },
  });
  await expect
    .poll(() => conditionOf(seen().snapshots, "s")?.message, patient)
    .toMatch(/^SandboxTemplate t: spec\.runtimes\[0\]\.name csi has no effect: [^.]+$/);
});
