import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parseAllDocuments } from "yaml";
import { cellPod } from "../../../src/api/pod/cell-pod.ts";
import { kinds } from "../../../src/api/kinds/crd.ts";
import { parsePodTemplate } from "../../../src/api/schema/pod-template.ts";
import { startControlPlane, type TestControlPlane } from "../../setup/control-plane.ts";
import { ApiClient, collection, type Manifest } from "./api-client.ts";
import { invalidObjects } from "./invalid-objects.ts";
import { fullStatuses } from "./statuses.ts";

let controlPlane: TestControlPlane;
let api: ApiClient;

beforeAll(async () => {
  controlPlane = await startControlPlane();
  api = new ApiClient(controlPlane);
  await api.install();
});
afterAll(async () => {
  await api.close();
  await controlPlane.stop();
});

const manifests = [
  "acs-clone-with-checkpoint.yaml",
  "api-keys.yaml",
  "every-field.yaml",
  "named-snapshots.yaml",
].flatMap((file) =>
  parseAllDocuments(readFileSync(new URL(`manifests/${file}`, import.meta.url), "utf8")).map(
    (document) => document.toJS() as Manifest,
  ),
);
const kindOf = (kind: string) => kinds.find((one) => one.kind === kind)!;
const schemaOf = (kind: string) => kindOf(kind).manifest;
const apiVersionOf = (kind: string) => kindOf(kind).apiVersion;

it.each(kinds.map((kind) => [kind.kind, kind] as const))(
  "establishes the CRD of %s",
  async (_name, { group, plural, shortNames }) => {
    const { body } = await api.call(
      "GET",
      `/apis/apiextensions.k8s.io/v1/customresourcedefinitions/${plural}.${group}`,
    );
    const status = body["status"] as { conditions: { type: string; status: string }[]; acceptedNames: unknown };
    const trueConditions = status.conditions.filter((condition) => condition.status === "True").map(({ type }) => type);
    expect(trueConditions).toEqual(["NamesAccepted", "Established"]);
    expect(status.acceptedNames).toMatchObject({ plural, shortNames });
  },
);

it.each([
  [
    "Sandbox",
    ["Name", "Status", "Age", "Claimed", "shutdown_time", "pause_time", "RecycledCount", "Message", "Engine"],
  ],
  [
    "SandboxSet",
    ["Name", "Replicas", "Available", "UpdatedReplicas", "UpdatedAvailableReplicas", "UpdateRevision", "Age"],
  ],
  ["SandboxTemplate", ["Name", "Owner", "Age"]],
  ["SandboxClaim", ["Name", "Phase", "Template", "Desired", "Claimed", "Age"]],
  ["Checkpoint", ["Name", "Status", "Age", "ID", "Source", "Size", "Data", "Engine"]],
  ["NamedSnapshot", ["Name", "Version", "Ready", "Building", "Step", "Digest", "Age", "Message"]],
  ["ApiKey", ["Name", "Service account", "Age"]],
])(
  "shows these columns in kubectl get %s, as OpenKruise Agents does for its kinds, and what else tells objects apart",
  async (kind, columns) => {
    const headers = { accept: "application/json;as=Table;v=v1;g=meta.k8s.io" };
    const { body } = await api.call("GET", collection(kind), undefined, headers);
    expect((body["columnDefinitions"] as { name: string }[]).map(({ name }) => name)).toEqual(columns);
  },
);

describe.each(
  manifests.map((manifest) => [`${manifest.kind} ${JSON.stringify(manifest.metadata)}`, manifest] as const),
)("%s", (_name, manifest) => {
  it("is accepted by the API server without losing a field", async () => {
    const { status, body } = await api.apply(manifest);
    expect([status, body["message"]]).toEqual([201, undefined]);
    expect(body).toMatchObject({ kind: manifest.kind, spec: manifest["spec"] as object });
  });

  it("is accepted by the schema", () => {
    expect(schemaOf(manifest.kind).safeParse(manifest).error).toBeUndefined();
  });
});

describe.each(invalidObjects)("$name", ({ kind, metadata, spec, message }) => {
  const manifest = { apiVersion: apiVersionOf(kind), kind, metadata: metadata ?? { name: "x" }, spec };

  it("is rejected by the API server, naming the field", async () => {
    const { status, body } = await api.call("POST", `${collection(kind)}?dryRun=All`, manifest);
    expect(status).toBe(422);
    expect(body["message"]).toMatch(message);
  });

  it("is rejected by the schema", () => {
    expect(schemaOf(kind).safeParse(manifest).success).toBe(false);
  });
});

it("allows changes of a Checkpoint's metadata, but not of its spec", async () => {
  const checkpoint = (spec: Record<string, unknown>, labels = {}) => ({
    apiVersion: "agents.kruise.io/v1alpha1",
    kind: "Checkpoint",
    metadata: { name: "fixed", labels },
    spec,
  });
  expect((await api.apply(checkpoint({ podName: "a" }), "")).status).toBe(201);
  const changed = await api.apply(checkpoint({ podName: "a", keepRunning: false }), "");
  expect(changed.status).toBe(422);
  expect(changed.body["message"]).toMatch(/spec: Invalid value: .*spec is immutable/);
  expect((await api.apply(checkpoint({ podName: "a" }, { a: "b" }), "")).status).toBe(200);
});

it("gives a SandboxClaim the defaults of OpenKruise Agents, and makes replicas immutable", async () => {
  const claim = (spec: object) => ({
    apiVersion: "agents.kruise.io/v1alpha1",
    kind: "SandboxClaim",
    metadata: { name: "claim" },
    spec: { templateName: "pool", ...spec },
  });
  const { body } = await api.apply(claim({}), "");
  expect(body["spec"]).toEqual({
    templateName: "pool",
    replicas: 1,
    claimTimeout: "1m",
    ttlAfterCompleted: "60m",
    createOnNoStock: true,
    waitReadyTimeout: "30s",
    skipInitRuntime: false,
  });
  const changed = await api.apply(claim({ replicas: 2 }), "");
  expect(changed.status).toBe(422);
  expect(changed.body["message"]).toMatch(/spec\.replicas: .*replicas is immutable/);
});

it.each(fullStatuses)("keeps every field of the status of a $kind", async ({ kind, spec, status }) => {
  const manifest = { apiVersion: apiVersionOf(kind), kind, metadata: { name: "status" }, spec };
  expect((await api.apply(manifest, "")).status).toBe(201);
  const headers = { "content-type": "application/apply-patch+yaml" };
  const path = `${collection(kind)}/status/status?fieldManager=status&fieldValidation=Strict`;
  const { spec: _spec, ...statusOnly } = { ...manifest, status };
  const response = await api.call("PATCH", path, statusOnly, headers);
  expect(response.body["message"]).toBeUndefined();
  expect(response.body["status"]).toEqual(status);
  const read = kinds.find((one) => one.kind === kind)!.object.parse(response.body);
  expect(read.status).toEqual(status);
});

it("reads the replicas of a SandboxSet from the scale subresource", async () => {
  const set = {
    apiVersion: "agents.kruise.io/v1alpha1",
    kind: "SandboxSet",
    metadata: { name: "scaled" },
    spec: { replicas: 2, templateRef: { name: "t" } },
  };
  await api.apply(set, "");
  const { body } = await api.call("GET", `${collection("SandboxSet")}/scaled/scale`);
  expect(body).toMatchObject({ kind: "Scale", spec: { replicas: 2 } });
});

const templates = manifests.flatMap(({ metadata, spec }) => {
  const { template } = spec as { template?: unknown };
  return template === undefined ? [] : [[metadata["name"] as string, template] as const];
});

it.each(templates)("accepts the Pod that runs %s", async (name, template) => {
  const owner = { metadata: { name, namespace: "default", uid: "5b0e6f0e-0000-4000-8000-000000000000" }, spec: {} };
  const pod = cellPod(owner, parsePodTemplate(template), { cellImage: "cell:1", publicKey: "key", start: "wait" });
  // The fixture contains a field that Pods do not have. Strict validation would reject it.
  const path = "/api/v1/namespaces/default/pods?dryRun=All&fieldValidation=Ignore";
  const { status, body } = await api.call("POST", path, pod);
  expect([status, body["message"]]).toEqual([201, undefined]);
});
