import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { annotations, labels } from "../../src/api/names/labels.ts";
import { importGuard } from "../../src/api/kinds/volume-import.ts";
import { clientApiRights, clientRights } from "../../src/install/http-server-rights.ts";
import { controllerRights } from "../../src/install/controller-rights.ts";
import { admissionPolicy } from "../../src/install/admission-policy.ts";
import { ruleOf } from "../../src/install/rights.ts";
import type { KubeClient } from "../../src/kube/kube-client.ts";
import type { KubeManifest } from "../../src/kube/object.ts";
import { admissionResources } from "../../src/kube/resource-ref.ts";
import {
  developer,
  dryRun,
  objectOf,
  openTenantCluster,
  refOfKind,
  refusal,
  type TenantCluster,
} from "./tenant-cluster.ts";
import type { RbacRule } from "../setup/until-allowed.ts";

/**
 * A user with the right to create Checkpoints, and without the right to import. The cluster has no VolumeSnapshots, so an import that the guard lets through fails
 * with `NotSupported`.
 */
let cluster: TenantCluster;
const namespace = "team";
let number = 0;

const volumeImport = { volumes: [{ volume: "data", driver: "ebs.csi.aws.com", snapshotHandle: "snap-of-others" }] };
const importOf = (name: string, metadata: object = {}): KubeManifest =>
  objectOf("Checkpoint", { name, namespace, ...metadata }, { volumeImport });
const denied = "get the right to import checkpoints (the verb import) in this namespace";
const checkpointRule = (...verbs: string[]): RbacRule => ({
  apiGroups: ["agents.kruise.io"],
  resources: ["checkpoints"],
  verbs,
});

const { policies, bindings } = admissionResources;
const guard = { name: importGuard.name };

/** How an import of an administrator ends. */
async function endOf(manifest: KubeManifest): Promise<string> {
  await cluster.client.resource(refOfKind("Checkpoint")).create(manifest);
  const key = `${namespace}/${manifest.metadata.name ?? ""}`;
  const { status } = await cluster.checkpoint(key, (one) => one.status?.phase === "Failed");
  return status?.message ?? "";
}

const newName = (): string => `import-${++number}`;

/** The guard is in effect, and lets the import through. */
async function untilGuarded(): Promise<void> {
  await expect.poll(() => endOf(importOf(newName())), { timeout: 30_000 }).toContain("it has no VolumeSnapshots");
}

async function restored(): Promise<void> {
  for (const manifest of admissionPolicy(importGuard)) {
    const ref = manifest.kind === policies.kind ? policies : bindings;
    await cluster.client.resource(ref).delete(guard);
    await cluster.client.resource(ref).create(manifest);
  }
  await untilGuarded();
}

beforeAll(async () => {
  cluster = await openTenantCluster({ importVolumes: true });
  await cluster.namespace(namespace);
  await cluster.namespace("elsewhere");
  await cluster.grant("mallory", namespace, developer);
});
afterAll(() => cluster.close());

describe("controllers", () => {
  it("import nothing without the policy, nor what was created before it", async () => {
    expect(await endOf(importOf(newName()))).toMatch(/does not exist, or has no binding.*\[ImportNotGuarded\]/);
    await cluster.installPolicies();
    expect(await endOf(importOf(newName()))).toMatch(/was created or changed when.*\[ImportNotGuarded\]/);
    await untilGuarded();
  });

  it.each([
    ["a policy that allows what it cannot evaluate", policies, { spec: { failurePolicy: "Ignore" } }],
    [
      "a policy with other conditions",
      policies,
      { spec: { matchConditions: [{ name: "never", expression: "false" }] } },
    ],
    ["a policy that validates something else", policies, { spec: { validations: [{ expression: "true" }] } }],
    [
      "a policy that leaves namespaces out",
      policies,
      { spec: { matchConstraints: { namespaceSelector: { matchLabels: { guarded: "true" } } } } },
    ],
    [
      "a policy that leaves updates out",
      policies,
      {
        spec: {
          matchConstraints: {
            resourceRules: [
              {
                apiGroups: ["agents.kruise.io"],
                apiVersions: ["*"],
                operations: ["CREATE"],
                resources: ["checkpoints"],
                scope: "*",
              },
            ],
          },
        },
      },
    ],
    ["a binding that only audits", bindings, { spec: { validationActions: ["Audit"] } }],
    [
      "a binding that leaves namespaces out",
      bindings,
      { spec: { matchResources: { namespaceSelector: { matchLabels: { guarded: "true" } } } } },
    ],
    ["a binding of another policy", bindings, { spec: { policyName: "other" } }],
  ])("import nothing with %s", async (_, ref, change) => {
    const resource = cluster.client.resource(ref);
    await resource.mergePatch(guard, change);
    expect(await endOf(importOf(newName()))).toMatch(/is not the one of this release.*\[ImportNotGuarded\]/);
    await restored();
  });

  it("import nothing that was created while the policy was another one, after it was put back", async () => {
    const resource = cluster.client.resource(policies);
    await resource.mergePatch(guard, { spec: { failurePolicy: "Ignore" } });
    await resource.mergePatch(guard, { spec: { failurePolicy: "Fail" } });
    expect(await endOf(importOf(newName()))).toMatch(/was created or changed when.*\[ImportNotGuarded\]/);
    await untilGuarded();
  });

  it("import nothing where the installation does not allow it", async () => {
    const closed = await openTenantCluster();
    try {
      await closed.namespace(namespace);
      await closed.client.resource(refOfKind("Checkpoint")).create(importOf("closed"));
      const { status } = await closed.checkpoint(`${namespace}/closed`, (one) => one.status?.phase === "Failed");
      expect(status?.message).toMatch(/this installation does not allow it.*\[ImportsDisabled\]/);
      await closed.client.resource(refOfKind("Checkpoint")).delete({ namespace, name: "closed" });
      await closed.untilDeleted("checkpoints", `${namespace}/closed`);
    } finally {
      await closed.close();
    }
  });
});

describe("a user without the verb", () => {
  const mallory = (): KubeClient => cluster.as("mallory");
  const checkpoints = () => mallory().resource(refOfKind("Checkpoint"));

  it("imports nothing, whatever the labels and annotations", async () => {
    expect(await refusal(dryRun(mallory(), importOf("plain")))).toContain(denied);
    const forged = {
      labels: { [labels.checkpointId]: "other", [labels.dataOf]: "other", [labels.ignore]: "true" },
      annotations: { [annotations.ownsData]: "true", [annotations.podUid]: "1" },
      ownerReferences: [{ apiVersion: "ramet.dev/v1alpha1", kind: "NamedSnapshot", name: "a", uid: "1" }],
    };
    expect(await refusal(dryRun(mallory(), importOf("forged", forged)))).toContain(denied);
    const generated = objectOf("Checkpoint", { name: "", namespace }, { volumeImport });
    expect(
      await refusal(checkpoints().create({ ...generated, metadata: { generateName: "a-", namespace } })),
    ).toContain(denied);
  });

  it("imports nothing by server-side apply", async () => {
    const applied = checkpoints().apply(importOf("applied"), { fieldManager: "mallory", force: true });
    expect(await refusal(applied)).toContain(denied);
  });

  it("adds the field to no existing Checkpoint", async () => {
    await checkpoints().create(objectOf("Checkpoint", { name: "capture", namespace }, { sandboxName: "none" }));
    const at = { namespace, name: "capture" };
    for (const spec of [{ volumeImport }, { volumeImport, sandboxName: null }]) {
      const refused = await refusal(checkpoints().mergePatch(at, { spec }));
      expect(refused).toMatch(/spec is immutable|get the right to import checkpoints/);
    }
    expect(
      await refusal(checkpoints().mergePatch(at, { status: { phase: "Succeeded" } }, { subresource: "status" })),
    ).toMatch(/Forbidden|forbidden/);
  });

  it("makes no Checkpoint an import by metadata alone", async () => {
    const metadata = {
      labels: { [labels.checkpointType]: "volumes" },
      annotations: { [annotations.ownsData]: "true" },
    };
    const ended = await endOf(
      objectOf("Checkpoint", { name: "metadata", namespace, ...metadata }, { sandboxName: "none" }),
    );
    expect(ended).toMatch(/no sandbox none/);
  });

  it("can still label an import of somebody else", async () => {
    await endOf(importOf("theirs"));
    await checkpoints().mergePatch({ namespace, name: "theirs" }, { metadata: { labels: { team: "a" } } });
    const changed = { spec: { volumeImport: { ...volumeImport, takeOwnership: true } } };
    expect(await refusal(checkpoints().mergePatch({ namespace, name: "theirs" }, changed))).not.toBe("");
  });
});

describe("the verb import", () => {
  it("counts in its namespace only", async () => {
    await cluster.grant("anna", "elsewhere", [checkpointRule("create", "import")]);
    await cluster.grant("anna", namespace, [checkpointRule("create")]);
    expect(await refusal(dryRun(cluster.as("anna"), importOf("a")))).toContain(denied);
    const there = objectOf("Checkpoint", { name: "a", namespace: "elsewhere" }, { volumeImport });
    expect(await refusal(dryRun(cluster.as("anna"), there))).toBe("");
  });

  it("does not replace the verb create, and is part of *", async () => {
    await cluster.grant("importer", namespace, [checkpointRule("import")]);
    expect(await refusal(dryRun(cluster.as("importer"), importOf("a")))).toMatch(/cannot create resource/);
    await cluster.grant("owner", namespace, [checkpointRule("*")]);
    expect(await refusal(dryRun(cluster.as("owner"), importOf("a")))).toBe("");
  });

  it("belongs to no server, so none can be made to import for somebody else", async () => {
    const roles = {
      controllers: controllerRights(undefined, { importVolumes: true }).everywhere,
      "client-api": clientApiRights().everywhere,
      clients: clientRights,
    };
    for (const [name, rights] of Object.entries(roles)) {
      const ofCheckpoints = rights.filter(({ resources = [] }) => resources.includes("checkpoints"));
      await cluster.grant(name, namespace, ofCheckpoints.map(ruleOf));
      expect(await refusal(dryRun(cluster.as(name), importOf("a"))), name).toContain(denied);
    }
  });
});
