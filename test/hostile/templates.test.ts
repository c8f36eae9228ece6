import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { restrictedFields, restrictedNames, forbiddenFields } from "../../src/api/pod/template-policy.ts";
import type { Sandbox } from "../../src/api/kinds/sandbox.ts";
import type { PodTemplateSpec } from "../../src/api/schema/pod-template.ts";
import { clientCredentialsRight, internalGroup, registrySecretPrefix } from "../../src/api/names/system-names.ts";
import { findCondition } from "../../src/kube/conditions.ts";
import type { KubeClient } from "../../src/kube/kube-client.ts";
import { coreResources } from "../../src/kube/resource-ref.ts";
import {
  developer,
  dryRun,
  objectOf,
  openTenantCluster,
  refOfKind,
  refusal,
  type TenantCluster,
  untilRefused,
} from "./tenant-cluster.ts";

/** Templates of a user with the right to create sandboxes, and without rights on Pods and Secrets. */
let cluster: TenantCluster;
let mallory: KubeClient;

beforeAll(async () => {
  cluster = await openTenantCluster();
  mallory = cluster.as("mallory");
});
afterAll(() => cluster.close());

const main = { name: "main", image: "python" };
const template = (spec: object) => ({ template: { spec: { containers: [main], ...spec } } });
const onTheNode = template({ volumes: [{ name: "node", hostPath: { path: "/" } }] });
const annotation = "ramet.dev/allow-in-templates";

async function openNamespace(namespace: string): Promise<void> {
  await cluster.namespace(namespace);
  await cluster.grant("mallory", namespace, developer);
}

async function allow(namespace: string, names: string): Promise<void> {
  const namespaces = cluster.client.resource(coreResources.namespaces);
  await namespaces.mergePatch({ name: namespace }, { metadata: { annotations: { [annotation]: names } } });
}

function create(kind: string, name: string, namespace: string, spec: object): Promise<unknown> {
  return mallory.resource(refOfKind(kind)).create(objectOf(kind, { name, namespace }, spec));
}

const readyMessage = ({ status }: Sandbox) => findCondition(status?.conditions, "Ready")?.message ?? "";
const isRefused = (sandbox: Sandbox) =>
  readyMessage(sandbox).includes("cannot use spec.template.spec.volumes[0].hostPath");

/** Resolves when some sandbox of the namespace is refused for its hostPath, and asserts that no Pod exists. */
async function expectRefused(namespace: string): Promise<void> {
  const sandboxes = () => cluster.seen.sandboxes.store.list().filter((one) => one.metadata.namespace === namespace);
  await expect.poll(() => sandboxes().some(isRefused)).toBe(true);
  const { items } = await cluster.client.resource(coreResources.pods).list({ namespace });
  expect(items).toEqual([]);
}

describe("controllers, also without admission policies,", () => {
  it("create no Pod for a Sandbox with a forbidden field until the namespace allows it", async () => {
    await openNamespace("direct");
    await create("Sandbox", "a", "direct", onTheNode);
    const refused = await cluster.sandbox("direct/a", isRefused);
    expect(findCondition(refused.status?.conditions, "Ready")).toMatchObject({ reason: "PodCreateFailed" });
    expect(readyMessage(refused)).toContain(
      "let an administrator add hostPath to the annotation ramet.dev/allow-in-templates",
    );
    await expectRefused("direct");
    await allow("direct", "hostPath");
    await cluster.sandbox("direct/a", ({ status }) => status?.phase === "Running");
  });

  it.each<[string, string, object]>([
    ["SandboxTemplate", "Sandbox", { templateRef: { name: "t" } }],
    ["SandboxTemplate", "SandboxSet", { replicas: 1, templateRef: { name: "t" } }],
    ["SandboxTemplate", "NamedSnapshot", { from: { template: { name: "t" } } }],
  ])("create no Pod for such a %s of a %s", async (kind, user, spec) => {
    const namespace = `by-${user.toLowerCase()}`;
    await openNamespace(namespace);
    await create(kind, "t", namespace, onTheNode);
    await create(user, "a", namespace, spec);
    await expectRefused(namespace);
  });

  it("create no Pod for a claim of such a set", async () => {
    await openNamespace("claimed");
    await create("SandboxSet", "pool", "claimed", { replicas: 0, ...onTheNode });
    await create("SandboxClaim", "a", "claimed", { templateName: "pool" });
    await expectRefused("claimed");
  });

  it("create no Pod for a clone by the template of its checkpoint when the namespace no longer allows the field", async () => {
    await openNamespace("cloned");
    await allow("cloned", "hostPath");
    await create("Sandbox", "source", "cloned", onTheNode);
    await cluster.sandbox("cloned/source", ({ status }) => status?.phase === "Running");
    await create("Checkpoint", "c", "cloned", { podName: "source" });
    const { status } = await cluster.checkpoint("cloned/c", (one) => one.status?.phase === "Succeeded");
    await allow("cloned", "");
    const metadata = {
      name: "clone",
      namespace: "cloned",
      annotations: { "ramet.dev/restore-from": status?.checkpointId },
    };
    await mallory.resource(refOfKind("Sandbox")).create({ ...objectOf("Sandbox", metadata, {}) });
    await cluster.sandbox("cloned/clone", isRefused);
    const { items } = await cluster.client.resource(coreResources.pods).list({ namespace: "cloned" });
    expect(items.map((pod) => pod.metadata.name)).toEqual(["source"]);
  });

  it("report an unknown name in the annotation", async () => {
    await openNamespace("typo");
    await allow("typo", "hostpath");
    await create("Sandbox", "a", "typo", template({}));
    await cluster.sandbox("typo/a", (one) => readyMessage(one).includes("names the unknown field hostpath"));
  });

  it("report what to do when Pod Security refuses a cell", async () => {
    await openNamespace("baseline");
    const enforce = { "pod-security.kubernetes.io/enforce": "baseline" };
    await cluster.client
      .resource(coreResources.namespaces)
      .mergePatch({ name: "baseline" }, { metadata: { labels: enforce } });
    await create("Sandbox", "a", "baseline", template({}));
    const refused = await cluster.sandbox("baseline/a", (one) => readyMessage(one).includes("violates PodSecurity"));
    expect(readyMessage(refused)).toContain("pod-security.kubernetes.io/enforce=privileged");
    expect(readyMessage(refused)).not.toContain("Grant this verb");
  });
});

describe("the admission policies", () => {
  beforeAll(async () => {
    await openNamespace("policed");
    await cluster.installPolicies();
    await untilRefused(() => tried("Sandbox", onTheNode), /cannot use hostPath/);
    await untilRefused(() => allow("policed", "hostpath"), /names an unknown field/);
    await untilRefused(() => tried("Sandbox", template({ imagePullSecrets: [{ name: "s" }] })), /names the Secret s/);
    await untilRefused(() => tried("NamedSnapshot", copying("s")), /names the Secret s/);
  });

  const tried = (kind: string, spec: object, namespace = "policed", client = mallory) =>
    dryRun(client, objectOf(kind, { name: "x", namespace }, spec));

  it.each([
    ["Sandbox", {}],
    ["SandboxSet", { replicas: 1 }],
    ["SandboxTemplate", {}],
  ])("refuse a %s with a forbidden field, on creation and on update", async (kind, spec) => {
    expect(await refusal(tried(kind, { ...spec, ...onTheNode }))).toMatch(
      /Templates in this namespace cannot use hostPath \(spec\.template\.spec\.volumes\[\]\.hostPath\): remove it, or let an administrator add hostPath to the annotation ramet\.dev\/allow-in-templates/,
    );
    await create(kind, "changed", "policed", { ...spec, ...template({}) });
    const change = mallory
      .resource(refOfKind(kind))
      .mergePatch({ name: "changed", namespace: "policed" }, { spec: onTheNode });
    expect(await refusal(change)).toMatch(/cannot use hostPath/);
  });

  it("refuse a quota of a namespace that the controllers could not read", async () => {
    const quota = (text: string) =>
      cluster.client
        .resource(coreResources.namespaces)
        .mergePatch({ name: "policed" }, { metadata: { annotations: { "ramet.dev/quota": text } } });
    await untilRefused(() => quota("checkpoint=5"), /has an invalid item: write it as storeBytes=100Gi/);
    expect(await refusal(quota("builds=1,builds=2"))).toMatch(/sets a limit twice/);
    await quota("storeBytes=1.5Ti, checkpoints=unlimited,builds=4,fetches=0");
    await quota("");
  });

  it("let a user change and delete an object from before them", async () => {
    const at = { name: "a", namespace: "direct" };
    const sandboxes = mallory.resource(refOfKind("Sandbox"));
    await allow("direct", "");
    await untilRefused(() => tried("Sandbox", onTheNode, "direct"), /cannot use hostPath/);
    await sandboxes.mergePatch(at, {
      metadata: { labels: { mine: "too" } },
      spec: { shutdownTime: "2099-01-01T00:00:00Z" },
    });
    await sandboxes.delete(at);
    await cluster.untilDeleted("sandboxes", "direct/a");
  });

  it("agree with the controllers about every restricted field and value", async () => {
    const disagreements: string[] = [];
    let refused = 0;
    for (const { name, spec } of cases()) {
      const own = controllersRefuse(spec);
      const answer = await refusal(tried("SandboxTemplate", { template: spec }));
      if (own !== (answer !== "")) disagreements.push(`${name}: ${answer}`);
      if (own) refused++;
    }
    expect(disagreements).toEqual([]);
    expect(refused).toBeGreaterThan(restrictedFields.length);
  });

  it("agree with the controllers about what a namespace allows", async () => {
    await openNamespace("allowing");
    const impersonate = { apiGroups: [""], resources: ["serviceaccounts"], verbs: ["impersonate"] };
    await cluster.grant("mallory", "allowing", [...developer, impersonate]);
    for (const name of restrictedNames) {
      await allow("allowing", name);
      const spec = cases().find((one) => one.restricted === name)?.spec ?? {};
      await expect.poll(() => refusal(tried("SandboxTemplate", { template: spec }, "allowing"))).toBe("");
      const other = cases().find((one) => one.restricted !== name && controllersRefuse(one.spec))?.spec ?? {};
      expect(await refusal(tried("SandboxTemplate", { template: other }, "allowing"))).toMatch(/cannot use/);
    }
  });

  const variable = (name: string) => ({ name: "A", valueFrom: { secretKeyRef: { name, key: "k" } } });
  const copying = (name: string) => ({
    from: { template: { name: "t" } },
    recipe: [{ copy: { path: "/x", secretKeyRef: { name, key: "k" } } }],
  });
  const naming: [string, (name: string) => object][] = [
    ["env", (name) => template({ containers: [{ ...main, env: [variable(name)] }] })],
    ["env of a sidecar", (name) => template({ initContainers: [{ name: "s", env: [variable(name)] }] })],
    ["envFrom", (name) => template({ containers: [{ ...main, envFrom: [{ secretRef: { name } }] }] })],
    ["a volume", (name) => template({ volumes: [{ name: "v", secret: { secretName: name } }] })],
    [
      "a projected volume",
      (name) => template({ volumes: [{ name: "v", projected: { sources: [{ secret: { name } }] } }] }),
    ],
    [
      "a CSI volume",
      (name) => template({ volumes: [{ name: "v", csi: { driver: "d", nodePublishSecretRef: { name } } }] }),
    ],
    ["imagePullSecrets", (name) => template({ imagePullSecrets: [{ name }] })],
  ];

  it.each(naming)("refuse a Secret in %s that the user cannot read, and no other", async (_, spec) => {
    await cluster.grant("reader", "policed", [
      ...developer,
      { apiGroups: [""], resources: ["secrets"], resourceNames: ["known"], verbs: ["get"] },
    ]);
    const reader = cluster.as("reader");
    const by = (name: string) => tried("Sandbox", spec(name), "policed", reader);
    await expect.poll(() => refusal(by("known"))).toBe("");
    expect(await refusal(by("other"))).toMatch(/spec\.template names the Secret other, which you cannot read/);
  });

  it("let the client API name the Secrets for registries that it creates, and no user or other Secret", async () => {
    await cluster.grant("client-api", "policed", [
      ...developer,
      { apiGroups: [internalGroup], resources: [clientCredentialsRight], verbs: ["create"] },
    ]);
    const by = (client: KubeClient, name: string) =>
      refusal(tried("SandboxTemplate", template({ imagePullSecrets: [{ name }] }), "policed", client));
    const clientApi = cluster.as("client-api");
    await expect.poll(() => by(clientApi, `${registrySecretPrefix}a`)).toBe("");
    expect(await by(clientApi, "other")).toMatch(/names the Secret other/);
    expect(await by(mallory, `${registrySecretPrefix}a`)).toMatch(/which you cannot read/);
  });

  it("refuse a Secret in a recipe that the user cannot read, and no ConfigMap", async () => {
    expect(await refusal(tried("NamedSnapshot", copying("other")))).toMatch(/spec\.recipe names the Secret other/);
    const configMap = { path: "/x", configMapKeyRef: { name: "c", key: "k" } };
    expect(
      await refusal(tried("NamedSnapshot", { from: { template: { name: "t" } }, recipe: [{ copy: configMap }] })),
    ).toBe("");
  });

  it("count each Secret once, and refuse more than they can check, also if the user can read each", async () => {
    const resourceNames = Array.from({ length: 21 }, (_, index) => `s${index}`);
    await cluster.grant("owner", "policed", [
      ...developer,
      { apiGroups: [""], resources: ["secrets"], resourceNames, verbs: ["get"] },
    ]);
    const owner = cluster.as("owner");
    const by = (names: string[]) =>
      tried("Sandbox", template({ containers: [{ ...main, env: names.map(variable) }] }), "policed", owner);
    const twenty = resourceNames.slice(0, 20);
    await expect.poll(() => refusal(by([...twenty, ...twenty]))).toBe("");
    expect(await refusal(by(resourceNames))).toMatch(/names more than 20 Secrets/);
  });

  it("refuse a service account that the user cannot impersonate, also if the namespace allows accounts", async () => {
    await openNamespace("accounts");
    await allow("accounts", "serviceAccountName");
    await cluster.grant("mallory", "accounts", [
      ...developer,
      { apiGroups: [""], resources: ["serviceaccounts"], resourceNames: ["mine"], verbs: ["impersonate"] },
    ]);
    await expect.poll(() => refusal(tried("Sandbox", template({ serviceAccountName: "mine" }), "accounts"))).toBe("");
    for (const field of ["serviceAccountName", "serviceAccount"]) {
      expect(await refusal(tried("Sandbox", template({ [field]: "admin" }), "accounts"))).toMatch(
        /is admin, which you cannot impersonate/,
      );
    }
  });
});

/** Every path with a value that is not harmless, with each that is, and with a value of another shape. */
function cases(): { name: string; restricted: string; spec: object }[] {
  return restrictedFields.flatMap(({ name, paths, harmless }) =>
    paths.flatMap((path) =>
      ["not-harmless", true, ...harmless, null, {}].map((value) => ({
        name: `${path.join(".")} = ${JSON.stringify(value)}`,
        restricted: name,
        spec: withValue(path, value),
      })),
    ),
  );
}

function withValue(path: readonly string[], value: unknown): object {
  const nested = nest(path, value) as { spec?: { containers?: object[] } };
  const containers = [{ ...main, ...nested.spec?.containers?.[0] }];
  return { ...nested, spec: { ...nested.spec, containers } };
}

function nest([step, ...rest]: readonly string[], value: unknown): unknown {
  if (step === undefined) return value;
  if (step.endsWith("*")) return { [`${step.slice(0, -1)}main`]: String(value) };
  const inner = nest(rest, value);
  if (!step.endsWith("[]")) return { [step]: inner };
  const isObject = rest.length > 0;
  return { [step.slice(0, -2)]: [isObject ? { name: "item", ...(inner as object) } : inner] };
}

function controllersRefuse(template: object): boolean {
  return forbiddenFields(template as PodTemplateSpec, new Set()).length > 0;
}
