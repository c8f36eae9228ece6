import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { annotations } from "../../src/api/names/labels.ts";
import type { KubeClient } from "../../src/kube/kube-client.ts";
import {
  developer,
  dryRun,
  objectOf,
  openTenantCluster,
  refusal,
  type TenantCluster,
  untilRefused,
} from "./tenant-cluster.ts";

/** A user who may create sandboxes, and read one Secret and impersonate one service account. */
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
