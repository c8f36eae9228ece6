import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { apiKeyKind, type ApiKeySpec } from "../../src/api/kinds/api-key.ts";
import { group, rametGroup } from "../../src/api/schema/kind.ts";
import { clientRole } from "../../src/install/http-server-rights.ts";
import type { KubeClient } from "../../src/kube/kube-client.ts";
import type { KubeManifest } from "../../src/kube/object.ts";
import { coreResources, refOf } from "../../src/kube/resource-ref.ts";
import { openTenantCluster, refusal, type TenantCluster, untilRefused } from "./tenant-cluster.ts";
import type { RbacRule } from "../setup/until-allowed.ts";

/** A user with the right to write ApiKeys and to request tokens of one service account only. */
let cluster: TenantCluster;
let mallory: KubeClient;

const apiKeys = refOf(apiKeyKind);
const namespace = "team";
const writer: readonly RbacRule[] = [
  { apiGroups: [rametGroup], resources: ["apikeys"], verbs: ["get", "list", "create", "update", "patch", "delete"] },
  { apiGroups: [""], resources: ["serviceaccounts/token"], resourceNames: ["agents"], verbs: ["create"] },
];
const digestOf = (digit: string) => ({ digest: `sha256:${digit.repeat(64)}` });
const denied = (account: string) =>
  `spec.serviceAccountName is ${account}, of which you cannot request tokens: get the right to create serviceaccounts/token for this service account`;

beforeAll(async () => {
  cluster = await openTenantCluster();
  mallory = cluster.as("mallory");
  await cluster.namespace(namespace);
  await cluster.namespace("elsewhere");
  await cluster.grant("mallory", namespace, writer);
  await cluster.grant("mallory", "elsewhere", writer.slice(0, 1));
  await cluster.installPolicies();
  await untilRefused(() => create(mallory, "probe", { serviceAccountName: "admin" }), /cannot request tokens/);
});
afterAll(() => cluster.close());

function keyOf(name: string, spec: Partial<ApiKeySpec>, at = namespace): KubeManifest {
  const { apiVersion, kind } = apiKeyKind;
  const rest = { serviceAccountName: "agents", digests: [digestOf("0")], ...spec };
  return { apiVersion, kind, metadata: { name, namespace: at }, spec: rest };
}

function create(client: KubeClient, name: string, spec: Partial<ApiKeySpec>, at?: string): Promise<unknown> {
  return client.resource(apiKeys).create(keyOf(name, spec, at));
}

function change(name: string, patch: object): Promise<unknown> {
  return mallory.resource(apiKeys).mergePatch({ namespace, name }, patch);
}

describe("a user who can request tokens of one service account", () => {
  it("creates keys of this account, and of no other one", async () => {
    await create(mallory, "own", {});
    expect(await refusal(create(mallory, "other", { serviceAccountName: "admin" }))).toContain(denied("admin"));
    expect(await refusal(create(mallory, "default", { serviceAccountName: "default" }))).toContain(denied("default"));
  });

  it("creates no key of the account with the same name in another namespace", async () => {
    expect(await refusal(create(mallory, "own", {}, "elsewhere"))).toContain(denied("agents"));
  });

  it("rotates a key of this account, and gives it to no other one", async () => {
    await create(mallory, "mine", {});
    await change("mine", { spec: { digests: [digestOf("1")] } });
    expect(await refusal(change("mine", { spec: { serviceAccountName: "admin" } }))).toContain(denied("admin"));
  });

  it("puts no digest into a key of another account, by any verb", async () => {
    await create(cluster.client, "theirs", { serviceAccountName: "admin" });
    const stolen = { digests: [digestOf("0"), digestOf("2")] };
    expect(await refusal(change("theirs", { spec: stolen }))).toContain(denied("admin"));
    const applied = keyOf("theirs", { serviceAccountName: "admin", ...stolen });
    const apply = mallory.resource(apiKeys).apply(applied, { fieldManager: "mallory", force: true });
    expect(await refusal(apply)).toContain(denied("admin"));
    const longer = { digests: [{ ...digestOf("0"), expiresAt: "2999-01-01T00:00:00Z" }] };
    expect(await refusal(change("theirs", { spec: longer }))).toContain(denied("admin"));
  });

  it("changes limits and labels of a key of another account, and revokes it", async () => {
    await create(cluster.client, "limited", { serviceAccountName: "admin" });
    await change("limited", { metadata: { labels: { a: "b" } }, spec: { limits: { sandboxes: 1 } } });
    await mallory.resource(apiKeys).delete({ namespace, name: "limited" });
  });
});

it("lets administrators create keys of every account", async () => {
  await create(cluster.client, "of-admin", { serviceAccountName: "anything" });
});

it("gives a service account with the role of clients what the client API offers, and nothing that gives it more", async () => {
  const user = "client";
  await cluster.grant(user, namespace, clientRole()["rules"] as RbacRule[]);
  const client = cluster.as(user);
  for (const resource of ["sandboxes", "sandboxsets", "sandboxtemplates", "checkpoints"]) {
    await client
      .resource({ group, version: "v1alpha1", plural: resource, kind: "", namespaced: true })
      .list({ namespace });
  }
  expect(await refusal(create(client, "more", {}))).toContain('cannot create resource "apikeys"');
  expect(await refusal(client.resource(apiKeys).list({ namespace }))).toContain('cannot list resource "apikeys"');
  expect(await refusal(client.resource(coreResources.secrets).list({ namespace }))).toContain("cannot list");
  expect(await refusal(client.resource(coreResources.pods).list({ namespace }))).toContain("cannot list");
});
