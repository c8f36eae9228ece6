import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { annotations } from "../../src/api/names/labels.ts";
import type { KubeClient } from "../../src/kube/kube-client.ts";
import type { KubeObject } from "../../src/kube/object.ts";
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

/** A user with the rights to create sandboxes, read one Secret and impersonate one service account. */
let cluster: TenantCluster;
let mallory: KubeClient;
const namespace = "team";

beforeAll(async () => {
  cluster = await openTenantCluster();
  mallory = cluster.as("mallory");
  await cluster.namespace(namespace);
  await cluster.grant("mallory", namespace, [
    ...developer,
    { apiGroups: [""], resources: ["serviceaccounts"], resourceNames: ["agent"], verbs: ["impersonate"] },
    { apiGroups: [""], resources: ["secrets"], resourceNames: ["known", "known.too"], verbs: ["get"] },
  ]);
  await cluster.installPolicies();
  await untilRefused(() => tried(places.sandbox, "$(secret/other/key)"), /names the Secret other/);
  await untilRefused(() => create({ [annotations.sealedCredentials]: "v1.x" }), /Only the client API/);
});
afterAll(() => cluster.close());

type Place = (given: Record<string, string>) => Promise<unknown>;

const pod = { containers: [{ name: "main", image: "python" }] };
const create: Place = (given) =>
  dryRun(mallory, {
    ...objectOf("Sandbox", { name: "a", namespace }, { template: { spec: pod } }),
    metadata: { name: "a", namespace, annotations: given },
  });
const inTemplate =
  (kind: string): Place =>
  (given) =>
    dryRun(
      mallory,
      objectOf(
        kind,
        { name: "a", namespace },
        {
          ...(kind === "SandboxSet" && { replicas: 0 }),
          template: { metadata: { annotations: given }, spec: pod },
        },
      ),
    );
const places = {
  sandbox: create,
  "the template of a sandbox": inTemplate("Sandbox"),
  "a SandboxTemplate": inTemplate("SandboxTemplate"),
  "a SandboxSet": inTemplate("SandboxSet"),
  "a claim": (given: Record<string, string>) =>
    dryRun(mallory, objectOf("SandboxClaim", { name: "a", namespace }, { templateName: "set", annotations: given })),
};

const tried = (place: Place, value: string): Promise<unknown> =>
  place({ [annotations.credentials]: JSON.stringify({ rules: { "a.test": { x: value } } }) });

describe.each(Object.entries(places))("credentials in %s", (_name, place) => {
  it("name only Secrets that the user can read, and accounts that the user can impersonate", async () => {
    const allowed = "$(secret/known/key) $(secret/known.too/key) $(token/agent/https://sts.example.org)";
    expect(await refusal(tried(place, allowed))).toBe("");
    expect(await refusal(tried(place, `${allowed} $(secret/other/key)`))).toContain(
      "names the Secret other: get the right to get it",
    );
    expect(await refusal(tried(place, `$(token/admin/x) ${allowed}`))).toContain(
      "names the service account admin: get the right to impersonate it",
    );
    expect(await refusal(tried(place, "$(secret/known/a$(secret/other/b))"))).toContain("the Secret other");
  });

  it("are sealed by the client API only", async () => {
    expect(await refusal(place({ [annotations.sealedCredentials]: "v1.AAAA" }))).toContain(
      "Only the client API may set",
    );
  });
});

it("counts names once, and refuses more than it can check", async () => {
  const many = Array.from({ length: 40 }, () => "$(secret/known/key)").join("");
  expect(await refusal(tried(create, many))).toBe("");
  const resourceNames = Array.from({ length: 17 }, (_, index) => `s${index}`);
  await cluster.grant("owner", namespace, [
    ...developer,
    { apiGroups: [""], resources: ["secrets"], resourceNames, verbs: ["get"] },
  ]);
  const owner = cluster.as("owner");
  const by = (names: readonly string[]) =>
    dryRun(owner, {
      ...objectOf("Sandbox", { name: "a", namespace }, { template: { spec: pod } }),
      metadata: {
        name: "a",
        namespace,
        annotations: { [annotations.credentials]: names.map((name) => `$(secret/${name}/key)`).join(" ") },
      },
    });
  await expect.poll(() => refusal(by(resourceNames.slice(0, 16)))).toBe("");
  expect(await refusal(by(resourceNames))).toContain("names more than 16 Secrets");
});

/** Where values go: all of these let their author read them. */
const elsewhere = {
  "its DNS servers": {
    spec: { template: { spec: { dnsPolicy: "None", dnsConfig: { nameservers: ["203.0.113.5"] } } } },
  },
  "its template": { spec: { template: null, templateRef: { name: "own" } } },
  "its egress proxy": {
    metadata: { annotations: { [annotations.credentials]: '{"egressProxy": {"address": "203.0.113.5:1080"}}' } },
  },
};

describe.each(Object.entries(elsewhere))("a user who changes %s", (_name, change) => {
  const patch = async (client: KubeClient, given: Record<string, string>, body: object) => {
    const name = `of-another-${Object.keys(given).length}-${Math.random().toString(36).slice(2)}`;
    await cluster.client
      .resource(refOfKind("Sandbox"), (value) => value as KubeObject)
      .create({
        ...objectOf("Sandbox", { name, namespace }, { paused: true, template: { spec: pod } }),
        metadata: { name, namespace, annotations: given },
      });
    const sandboxes = client.resource(refOfKind("Sandbox"), (value) => value as KubeObject);
    return refusal(sandboxes.mergePatch({ name, namespace }, body));
  };

  it("needs the rights on the Secrets that a sandbox uses", async () => {
    const own = { metadata: { annotations: { [annotations.credentials]: `# $(secret/other/key)\n{"tls": true}` } } };
    const given = { [annotations.credentials]: '{"rules": {"a.test": {"x": "$(secret/other/key)"}}}' };
    const body = "metadata" in change ? own : change;
    expect(await patch(mallory, given, body)).toContain("names the Secret other");
    expect(await patch(mallory, given, { metadata: { labels: { a: "b" } } })).toBe("");
    const known = { [annotations.credentials]: '{"rules": {"a.test": {"x": "$(secret/known/key)"}}}' };
    expect(await patch(mallory, known, change)).toBe("");
  });

  it("does not get what a client has sealed", async () => {
    const sealed = { [annotations.sealedCredentials]: "v1.AAAA" };
    expect(await patch(mallory, sealed, change)).toContain("Only the client API may set");
    expect(await patch(mallory, sealed, { metadata: { labels: { a: "b" } } })).toBe("");
    expect(await patch(cluster.client, sealed, change)).toBe("");
  });
});
