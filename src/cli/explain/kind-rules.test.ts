import { describe, expect, it } from "vitest";
import { Checkpoint } from "../../api/kinds/checkpoint.ts";
import { NamedSnapshot } from "../../api/kinds/named-snapshot.ts";
import { SandboxClaim } from "../../api/kinds/sandbox-claim.ts";
import { SandboxSet } from "../../api/kinds/sandbox-set.ts";
import { SandboxTemplate } from "../../api/kinds/sandbox-template.ts";
import { Sandbox } from "../../api/kinds/sandbox.ts";
import { type QuotaName, remedyOf } from "../../api/quota/namespace-quota.ts";
import { Storage } from "../../api/state/storage.ts";
import { unpackFailure } from "../../cell/layers/layer-cache.ts";
import { scratchHint, spaceHint } from "../../store/store-error.ts";
import { explainCheckpoint, isFreedByDeletion, withStorage } from "./checkpoint-rules.ts";
import { renderExplained } from "./explain.ts";
import type { Cause } from "./facts.ts";
import { explainTemplate } from "./other-kind-rules.ts";
import { explainClaim, explainSet } from "./set-rules.ts";
import { explainSnapshot } from "./snapshot-rules.ts";

const now = new Date("2030-01-01T00:10:00Z");
const since = "2030-01-01T00:00:00Z";
const common = { now, controllers: { value: undefined } };
const metadata = { name: "x", namespace: "t", uid: "u", resourceVersion: "1", creationTimestamp: since, generation: 1 };
const object = { metadata, apiVersion: "agents.kruise.io/v1alpha1" };
const containing = (text: string) => expect.stringContaining(text) as string;

function condition(type: string, status: string, reason: string, message = "") {
  return { type, status, reason, message, lastTransitionTime: since };
}

const reporting = (type: string, problem: object) => ({ ramet: { problems: { [type]: problem } } });

const silentNode: Cause = {
  object: "sandbox/a",
  explanation: {
    state: "stuck",
    cause: "The node n is silent",
    retry: "-",
    action: "Start the kubelet",
    foundIn: "node/n",
  },
};

describe("a checkpoint", () => {
  const explain = (status: object | undefined, source?: Cause, more: object = {}, sandboxName = "a") =>
    explainCheckpoint({
      ...common,
      source,
      checkpoint: Checkpoint.parse({
        ...object,
        metadata: { ...metadata, ...more },
        kind: "Checkpoint",
        spec: { sandboxName },
        ...(status && { status: { observedGeneration: 1, ...status } }),
      }),
    });

  const stored = (name: string, sizeBytes: number, more: object = {}) =>
    Checkpoint.parse({
      ...object,
      metadata: { ...metadata, name, uid: name, ...more },
      kind: "Checkpoint",
      spec: { sandboxName: "a" },
      status: { phase: "Succeeded", checkpointId: name, ramet: { sizeBytes } },
    });

  it("failed because the store is full", () => {
    const status = { phase: "Failed", message: "no space left on device [StoreFull]", completionTime: since };
    const problem = { code: "StoreFull", cause: "no space left on device" };
    expect(explain({ ...status, ...reporting("Ready", problem) })).toMatchObject({
      state: "failed",
      reason: "StoreFull",
      since,
      action: containing("Delete checkpoints"),
      retry: containing("None"),
    });
    // Of an earlier controller.
    expect(explain(status)).toMatchObject({ state: "failed", cause: status.message });
  });

  it("names what holds the data of a full store, and how to delete the largest", () => {
    const labels = { "ramet.dev/purpose": "version", "ramet.dev/snapshot-uid": "s" };
    const snapshot = (deletionPolicy: "Delete" | "Retain") =>
      NamedSnapshot.parse({
        ...object,
        apiVersion: "ramet.dev/v1alpha1",
        kind: "NamedSnapshot",
        metadata: { ...metadata, name: "python", uid: "s" },
        spec: { from: { template: { name: "base" } }, recipe: [{ run: "true" }], deletionPolicy },
      });
    const storage = new Storage([stored("small", 1024), stored("v1", 3 << 20, { labels })]);
    const status = { phase: "Failed", ...reporting("Ready", { code: "StoreFull", cause: "no space left" }) };
    const sandboxes: Sandbox[] = [];
    const explanation = withStorage(explain(status), storage, { snapshots: [snapshot("Delete")], sandboxes });
    expect(explanation.action).toMatch(/The largest frees 3MiB: ramet snapshot rm python -n t$/);
    const retained = withStorage(explain(status), storage, { snapshots: [snapshot("Retain")], sandboxes });
    expect(retained.action).toMatch(/: ramet snapshot rm python -n t && ramet checkpoint rm v1 -n t$/);
    expect(explanation.storage).toMatchObject({
      usedBytes: (3 << 20) + 1024,
      holders: [
        { kind: "snapshot", name: "python", uniqueBytes: 3 << 20, remove: "ramet snapshot rm python -n t" },
        { kind: "checkpoint", name: "small", uniqueBytes: 1024, remove: "ramet checkpoint rm small -n t" },
      ],
    });
    const rendered = renderExplained([{ kind: "checkpoint", object, explanation, unknown: [] }], "table", now);
    expect(rendered).toContain(
      "HELD BY     3MiB in this namespace, most by snapshot/python 3MiB, checkpoint/small 1KiB\n",
    );
    // It has nothing there, so somebody else has filled it.
    expect(withStorage(explain(status), new Storage([]), { sandboxes })).toEqual(explain(status));
  });

  it("lists the data that sandboxes use without a command that deletes it", () => {
    const sandbox = (name: string, phase: string, more: object = {}, annotations: object = {}) =>
      Sandbox.parse({
        ...object,
        kind: "Sandbox",
        metadata: { ...metadata, name, uid: name, annotations },
        spec: {},
        status: { phase, ramet: more },
      });
    const owner = { apiVersion: object.apiVersion, kind: "Sandbox", name: "idle", uid: "idle", controller: true };
    const pause = { labels: { "ramet.dev/purpose": "pause" }, ownerReferences: [owner] };
    const version = { labels: { "ramet.dev/purpose": "version", "ramet.dev/snapshot-uid": "s" } };
    const python = NamedSnapshot.parse({
      ...object,
      apiVersion: "ramet.dev/v1alpha1",
      kind: "NamedSnapshot",
      metadata: { ...metadata, name: "python", uid: "s" },
      spec: { from: { template: { name: "base" } }, recipe: [{ run: "true" }] },
    });
    const storage = new Storage([
      stored("idle-pause", 5 << 20, pause),
      stored("v1", 4 << 20, version),
      stored("source", 3 << 20),
      stored("free", 2 << 20),
    ]);
    const status = { phase: "Failed", ...reporting("Ready", { code: "StoreFull", cause: "no space left" }) };
    const explained = (sandboxes: Sandbox[] | undefined) =>
      withStorage(explain(status), storage, { snapshots: [python], sandboxes });
    const clones = [
      sandbox("idle", "Paused"),
      sandbox("b", "Running", { restoredFrom: "v1" }),
      sandbox("c", "Pending", {}, { "ramet.dev/restore-from": "source" }),
    ];
    const { action, storage: held } = explained(clones);
    expect(action).toMatch(/\. The largest that no sandbox uses frees 2MiB: ramet checkpoint rm free -n t$/);
    expect(held?.holders.map(({ kind, name, use, remove }) => [`${kind}/${name}`, use, remove])).toEqual([
      ["sandbox/idle", "Paused", undefined],
      ["snapshot/python", "cloned by sandbox/b", undefined],
      ["checkpoint/source", "cloned by sandbox/c", undefined],
      ["checkpoint/free", undefined, "ramet checkpoint rm free -n t"],
    ]);
    const rendered = renderExplained(
      [{ kind: "checkpoint", object, explanation: explained(clones), unknown: [] }],
      "table",
      now,
    );
    expect(rendered).toContain("sandbox/idle 5MiB (Paused), snapshot/python 4MiB (cloned by sandbox/b), ");
    // Every one can be in use.
    expect(explained(undefined).action).toBe(explain(status).action);
  });

  it("is freed by a deletion only of data in the store or of a quota of its bytes", () => {
    const isFreed = (code: string, hint?: string) =>
      isFreedByDeletion(explain({ phase: "Failed", ...reporting("Ready", { code, cause: "it is full", hint }) }));
    expect(isFreed("StoreFull", spaceHint)).toBe(true);
    expect(isFreed("StoreFull", "Delete checkpoints that you do not need, or raise the bucket's quota")).toBe(true);
    expect(isFreed("StoreFull", scratchHint)).toBe(false);
    expect(isFreed("StoreFull", `${spaceHint}; where the store is a bucket: ${scratchHint}`)).toBe(false);
    expect(isFreed("StoreFull", unpackFailure(`{"message":"a","errno":"ENOSPC"}`, "").hint)).toBe(false);
    expect(isFreed("StoreFull")).toBe(false);
    const ofQuota = (quota: QuotaName) =>
      remedyOf({ quota, namespace: "t", limit: 1, used: 1, remedy: "Delete checkpoints that you do not need" });
    expect(isFreed("QuotaExceeded", ofQuota("storeBytes"))).toBe(true);
    expect(isFreed("QuotaExceeded", `${ofQuota("storeBytes")}; then run: ramet snapshot build a -n t`)).toBe(true);
    expect(isFreed("QuotaExceeded", ofQuota("checkpoints"))).toBe(false);
    expect(isFreed("Timeout", spaceHint)).toBe(false);
  });

  it("quotes the name of its source in a command, because it can be any text", () => {
    const { action } = explain({ phase: "Creating" }, undefined, {}, "a; reboot 'now'");
    expect(action).toContain(String.raw`: kubectl logs 'a; reboot '\''now'\''' -n t`);
  });

  it("waits for a source whose node is silent", () => {
    expect(explain({ phase: "Creating" }, silentNode)).toMatchObject({
      state: "stuck",
      cause: "Its source sandbox/a cannot be captured: The node n is silent",
      foundIn: "node/n",
      action: "Start the kubelet",
    });
    const problem = { code: "SandboxNotReady", cause: "The sandbox a is not ready" };
    expect(explain({ phase: "Failed", ...reporting("Ready", problem) }, silentNode)).toMatchObject({
      foundIn: "node/n",
      action: "Start the kubelet",
    });
  });

  it.each([
    ["Waiting", "waiting", "Nothing needs to be done"],
    ["Preparing", "waiting", "ramet local status"],
    ["PreparationFailed", "stuck", "Install Go"],
  ])("has not begun: %s", (reason, state, action) => {
    const pending = condition("Ready", "False", reason, "It is captured when b has finished");
    expect(explain({ phase: "Pending", conditions: [pending] })).toMatchObject({
      state,
      reason,
      cause: pending.message,
      action: containing(action),
    });
  });

  it("lacks the data of volumes", () => {
    const conditions = [
      condition("VolumesCaptured", "False", "NotSupported", "The data of data is not in the checkpoint"),
    ];
    expect(explain({ phase: "Succeeded", conditions })).toMatchObject({
      state: "degraded",
      cause: containing("VolumesCaptured is False"),
    });
    expect(explain({ phase: "Succeeded" })).toMatchObject({ state: "healthy", cause: "It can be cloned" });
  });

  it("says how long its capture took", () => {
    const ramet = {
      pausedMilliseconds: 43.2,
      cutAt: "2026-11-28T10:00:00.000Z",
      readyAt: "2026-11-28T10:00:01.234Z",
    };
    const cause = "It can be cloned (source paused for 43 ms, data stored in 1.2 s)";
    expect(explain({ phase: "Succeeded", ramet })).toMatchObject({ state: "healthy", cause });
  });

  it.each([
    ["DataMissing", "The data of the checkpoint is not in the store", "every 10 minutes"],
    ["DataDamaged", "checkpoint t/a is lost: its file is shorter", "each clone"],
  ])("has lost its data: %s", (reason, cause, retry) => {
    const conditions = [condition("DataAvailable", "False", reason, cause)];
    const ramet = reporting("DataAvailable", { code: "CheckpointLost", cause, hint: "Restore it" });
    expect(explain({ phase: "Succeeded", conditions, ...ramet })).toMatchObject({
      state: "stuck",
      cause: containing("It cannot be cloned: "),
      reason,
      retry: containing(retry),
      action: "Restore it",
    });
    const found = condition("DataAvailable", "True", "DataFound", "The data is in the store again");
    expect(explain({ phase: "Succeeded", conditions: [found] })).toMatchObject({ state: "healthy" });
  });

  it("cannot be deleted while the store does not respond", () => {
    const deletion = { deletionTimestamp: since, finalizers: ["agents.kruise.io/checkpoint"] };
    expect(explain({ phase: "Terminating" }, undefined, deletion)).toMatchObject({
      state: "stuck",
      action: containing("ramet doctor"),
    });
  });

  it("is not processed by any controller", () => {
    expect(explain(undefined)).toMatchObject({ reason: "ControllerSilent" });
  });
});

describe("a set", () => {
  const explain = (conditions: object[], member?: Cause, problem?: object) =>
    explainSet({
      ...common,
      member,
      set: SandboxSet.parse({
        ...object,
        kind: "SandboxSet",
        spec: { replicas: 2, templateRef: { name: "python" } },
        status: {
          observedGeneration: 1,
          replicas: 2,
          availableReplicas: 1,
          conditions,
          ...(problem && reporting("Ready", problem)),
        },
      }),
    });

  it("names why a sandbox is not available", () => {
    const filling = [condition("Ready", "False", "Filling", "1 of 2 sandboxes are available")];
    expect(explain(filling, silentNode)).toMatchObject({
      state: "stuck",
      cause: "1 of 2 sandboxes are available. sandbox/a: The node n is silent",
      foundIn: "node/n",
    });
    expect(explain(filling)).toMatchObject({ state: "waiting" });
  });

  it("names when it tries again", () => {
    const cause = "a: It used more than its memory limit";
    const problem = { code: "OutOfMemory", cause, retryAt: "2030-01-01T00:12:00Z" };
    expect(explain([condition("Ready", "False", "StartFailing")], undefined, problem)).toMatchObject({
      state: "stuck",
      cause: containing("It used more than its memory limit"),
      reason: "OutOfMemory",
      retry: "The next attempt is at 2030-01-01T00:12:00Z",
      action: containing("Raise the memory limit"),
    });
  });

  it("has a template that does not exist", () => {
    const problem = { code: "NotFound", cause: "The SandboxTemplate python does not exist", hint: "Create it" };
    expect(explain([condition("Ready", "False", "NotFound")], undefined, problem)).toMatchObject({
      state: "stuck",
      action: "Create it",
    });
  });

  it("rolls to a new revision", () => {
    const rolling = condition(
      "Updated",
      "False",
      "RollingUpdate",
      "1 of 2 sandboxes are of an earlier revision than r",
    );
    expect(explain([condition("Ready", "True", "Available"), rolling])).toMatchObject({
      state: "waiting",
      reason: "RollingUpdate",
    });
  });
});

describe("a claim", () => {
  const stuckSet: Cause = { ...silentNode, object: "set/python" };
  const explain = (status: object, set?: Cause) =>
    explainClaim({
      ...common,
      set,
      claim: SandboxClaim.parse({
        ...object,
        kind: "SandboxClaim",
        spec: { templateName: "python", claimTimeout: "30m" },
        status: { observedGeneration: 1, ...status },
      }),
    });

  it("says until when it waits, and for what", () => {
    expect(explain({ phase: "Claiming", claimStartTime: since, message: "0 of 1 claimed" }, stuckSet)).toMatchObject({
      state: "stuck",
      cause: "0 of 1 claimed. set/python: The node n is silent",
      retry: "The controllers try again whenever the set python changes, until 2030-01-01T00:30:00Z",
      foundIn: "node/n",
    });
  });

  it("ended without its sandboxes", () => {
    const conditions = [condition("Completed", "True", "TimeoutReached")];
    const status = { phase: "Completed", claimedReplicas: 0, message: "0 of 1 claimed: timed out", conditions };
    expect(explain(status)).toMatchObject({
      state: "failed",
      reason: "TimeoutReached",
      action: containing("Raise the replicas"),
    });
    expect(explain({ phase: "Completed", claimedReplicas: 1 })).toMatchObject({ state: "healthy" });
  });
});

describe("a named snapshot", () => {
  const explain = (status: object, awaited?: Cause) =>
    explainSnapshot({
      ...common,
      awaited,
      snapshot: NamedSnapshot.parse({
        ...object,
        apiVersion: "ramet.dev/v1alpha1",
        kind: "NamedSnapshot",
        spec: { from: { template: { name: "python" } } },
        status: { observedGeneration: 1, ...status },
      }),
    });
  const digest = `sha256:${"0".repeat(64)}`;

  it("warns of random numbers that clones of the current version repeat", () => {
    const conditions = [
      condition("Building", "False", "Built"),
      condition("Ready", "True", "Ready", "Version 2 is current"),
    ];
    const own = { digest, checkpointId: "c", checkpointName: "c", createdAt: since };
    const versions = [
      { ...own, version: 1, randomPrograms: ["ruby"] },
      { ...own, version: 2, randomPrograms: ["node", "python"] },
    ];
    expect(explain({ conditions, versions, version: 2 })).toMatchObject({
      state: "healthy",
      cause:
        "Version 2 is current. Clones of version 2 repeat the random numbers of programs that run in it: node, python",
      action: containing("/etc/ramet/on-restore.d"),
    });
    const cause = "Version 2 is current";
    expect(explain({ conditions, versions: [{ ...own, version: 2 }], version: 2 })).toMatchObject({ cause });
  });

  it("names the failed step and its last output", () => {
    const failure = { reason: "StepFailed", message: "Step 2 of 2 (run make) failed", step: 2 };
    const build = { digest, startedAt: since, attempt: 1, endedAt: since, failure };
    const problems = { Building: { code: "StepFailed", cause: failure.message } };
    const step = { digest, step: "run make", state: "Failed", cached: false, output: "a\nmake: no rule\n" };
    const conditions = [condition("Building", "False", "StepFailed", failure.message)];
    const steps = [{ ...step, state: "Succeeded" }, step];
    expect(explain({ conditions, build, steps, problems })).toMatchObject({
      state: "failed",
      cause: "Step 2 of 2 (run make) failed. Its last output: make: no rule",
      action: containing("Correct step 2 of the recipe"),
      retry: containing("until it changes or a build is requested"),
    });
    expect(explain({ conditions, build, steps, version: 3 })).toMatchObject({
      state: "degraded",
      cause: containing("Version 3 is current"),
    });
  });

  it("waits for its build sandbox", () => {
    const conditions = [condition("Building", "True", "StartingBuilder", "Waiting for the sandbox a: it is starting")];
    const build = { digest, startedAt: since, attempt: 1, waitsFor: { kind: "Sandbox", name: "a" } };
    expect(explain({ conditions, build }, silentNode)).toMatchObject({
      state: "stuck",
      foundIn: "node/n",
      cause: containing("The build waits for sandbox/a"),
    });
    expect(explain({ conditions })).toMatchObject({ state: "waiting" });
  });

  it("proposes what the build sandbox's report says", () => {
    const cause = "The build sandbox x-build-1 ended in step 1 of 1 (run sleep 30): the entrypoint exited with code 0";
    const problem = { code: "BuilderFailed", cause, hint: "Give its template a command that keeps running" };
    const conditions = [condition("Building", "False", "BuilderFailed", `${cause} (3 attempts)`)];
    expect(explain({ conditions, problems: { Building: problem } })).toMatchObject({
      state: "failed",
      cause,
      action: problem.hint,
    });
  });

  it("waits for an input", () => {
    const problem = { code: "NotFound", cause: "The Secret s does not exist", hint: "Create it" };
    const conditions = [condition("Building", "False", "InputMissing")];
    expect(explain({ conditions, problems: { Building: problem } })).toMatchObject({
      state: "stuck",
      retry: containing("every 10 seconds"),
      action: "Create it",
    });
  });

  it("keeps an earlier engine if its source is memory, and says so", () => {
    const is = "Version 3 has the engine 3fb1c0a9d2e4 of another cell image, and remains usable";
    const why = "It cannot be captured again, because its source is memory of an earlier engine: the checkpoint x";
    const conditions = [
      condition("Building", "False", "Built", "Version 3 matches the spec"),
      condition("Ready", "True", "Ready", "Version 3 can be cloned"),
      condition("EngineCurrent", "False", "SourceBound", `${is}. ${why}; give it a template as its source`),
    ];
    const problem = { code: "SourceBound", cause: `${is}: ${why}`, hint: "Give it a template as its source" };
    expect(explain({ version: 3, conditions, problems: { EngineCurrent: problem } })).toMatchObject({
      state: "healthy",
      reason: "SourceBound",
      cause: `${is}: ${why}`,
      retry: "None: it keeps its engine",
      action: "Give it a template as its source",
    });
  });

  it("reports that a failed upgrade is repeated", () => {
    const failure = { reason: "BuilderFailed", message: "The sandbox x ended" };
    const upgrade = { of: 3, cellImage: "cell:2" };
    const build = { digest, startedAt: since, attempt: 3, endedAt: since, failure, upgrade };
    const conditions = [condition("Building", "False", "BuilderFailed", failure.message)];
    expect(explain({ version: 3, conditions, build })).toMatchObject({
      state: "degraded",
      retry: containing("repeated an hour after"),
    });
  });

  it("is held on purpose", () => {
    const hint = "Remove spec.pinnedVersion to build and follow new versions";
    const problem = { code: "Pinned", cause: "It is pinned to version 1", hint };
    const conditions = [condition("Building", "False", "Pinned")];
    expect(explain({ conditions, problems: { Building: problem } })).toMatchObject({
      state: "healthy",
      cause: problem.cause,
      action: hint,
    });
  });
});

describe("a template", () => {
  const explain = (template: object) =>
    explainTemplate(SandboxTemplate.parse({ ...object, kind: "SandboxTemplate", spec: { template } }));

  it("names the field that is not valid", () => {
    expect(explain({ spec: { containers: [{ name: "main", image: "python" }] } })).toMatchObject({ state: "healthy" });
    expect(explain({ spec: { containers: [] } })).toMatchObject({ state: "stuck", reason: "InvalidArgument" });
  });
});
