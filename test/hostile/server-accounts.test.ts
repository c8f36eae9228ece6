import { Agent, request } from "undici";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { labels } from "../../src/api/names/labels.ts";
import { clientApiName, controllerName, gatewayName, systemNamespace } from "../../src/api/names/system-names.ts";
import { sandboxResources } from "../../src/controllers/cluster/resources.ts";
import { controllerPolicies } from "../../src/install/admission-policies.ts";
import type { Manifest } from "../../src/install/manifest.ts";
import { serverManifests } from "../../src/install/manifests.ts";
import { KubeClient } from "../../src/kube/kube-client.ts";
import { coreResources, type ResourceRef } from "../../src/kube/resource-ref.ts";
import { openControlPlane, type TestControlPlane } from "../setup/control-plane.ts";
import { makeNamespace } from "../setup/namespace.ts";
import { tokenOf } from "../setup/service-accounts.ts";
import { objectOf, refOfKind } from "./tenant-cluster.ts";

/**
 * What a thief can do with the token of a server, on a real API server with the installed rights and admission policies. Each request
 * would be a step to more power than the server's own.
 */
const accounts = { "client API": clientApiName, gateway: gatewayName, controllers: controllerName } as const;
type Account = keyof typeof accounts;
const team = "team-a";
let plane: TestControlPlane;
let administrator: KubeClient;
let agent: Agent;
const tokens = new Map<string, string>();

const spec = { containers: [{ name: "main", image: "python" }] };
const onNode = { ...spec, volumes: [{ name: "node", hostPath: { path: "/" } }] };
const login = "ramet-registry-0123456789abcdef";

beforeAll(async () => {
  plane = await openControlPlane();
  agent = new Agent({ connect: { ca: plane.ca } });
  administrator = new KubeClient(plane.connection);
  for (const namespace of [systemNamespace, team]) await makeNamespace(administrator, namespace);
  const cell = objectOf("Pod", { name: "cell", namespace: team }, spec);
  const marked = { ...cell, metadata: { ...cell.metadata, labels: { [labels.cell]: "true" } } };
  await administrator.resource(coreResources.pods).create(marked);
  const account = { apiVersion: "v1", kind: "ServiceAccount", metadata: { name: "strong", namespace: team } };
  await administrator.resource(coreResources.serviceAccounts).create(account);
  for (const name of ["secret", login]) {
    const secret = { apiVersion: "v1", kind: "Secret", metadata: { name, namespace: team } };
    await administrator.resource(coreResources.secrets).create(secret);
  }
  const sandbox = objectOf("Sandbox", { name: "a", namespace: team }, { template: { spec } });
  await administrator.resource(sandboxResources.sandboxes).create(sandbox);
  const checkpoint = objectOf("Checkpoint", { name: "a", namespace: team }, { podName: "a" });
  await administrator.resource(refOfKind("Checkpoint")).create(checkpoint);
  for (const manifest of rightsAndPolicies())
    await administrator.resource(refOf(manifest)).apply(manifest, { fieldManager: "test", force: true });
  for (const name of Object.values(accounts))
    tokens.set(name, await tokenOf(administrator, { namespace: systemNamespace, name }));
  await untilInEffect();
}, 120_000);

afterAll(async () => {
  await Promise.all([administrator.close(), agent.close()]);
  await plane.stop();
});

/** The installed objects that decide about requests. */
function rightsAndPolicies(): Manifest[] {
  const options = {
    namespace: systemNamespace,
    image: "ramet",
    cellImage: "cell",
    replicas: 1,
    gatewayReplicas: 1,
    clientApi: { replicas: 1 },
    store: { directory: "/store", claim: "store" },
    clusterRanges: [],
  };
  const deciding = /^(ServiceAccount|(Cluster)?Role(Binding)?|ValidatingAdmissionPolicy(Binding)?)$/;
  return serverManifests(options).filter(({ kind }) => deciding.test(kind));
}

function refOf({ apiVersion, kind, metadata }: Manifest): ResourceRef {
  const [version = "", group = ""] = apiVersion.split("/").reverse();
  const plural = `${kind.toLowerCase()}s`.replace(/ys$/, "ies");
  return { group, version, plural, kind, namespaced: metadata.namespace !== undefined };
}

/** An API server knows rights and policies some moments after they were written, and serves lists of a kind some moments after it. */
async function untilInEffect(): Promise<void> {
  const expected: [Account, Attempt, RegExp][] = [
    ["controllers", secret(team, "other", "Opaque"), /create only keys/],
    ["controllers", pod(spec, {}), /create only Pods that run cells/],
    ["client API", sandbox({ ...spec, imagePullSecrets: [{ name: login }] }), /^$/],
    ["gateway", ["GET", `${sandboxes}/a`], /^$/],
    ["gateway", ["GET", apiKeys], /^$/],
  ];
  for (const [account, attempt, answer] of expected)
    await vi.waitFor(async () => {
      expect(await refused(account, attempt)).toMatch(answer);
    }, 20_000);
}

type Attempt = readonly [
  method: "GET" | "POST" | "PATCH" | "DELETE",
  path: string,
  body?: object | undefined,
  headers?: object,
];

/** Why a request was refused; empty if it was not. Nothing is stored. */
async function refused(account: Account, [method, path, body, headers]: Attempt): Promise<string> {
  const type = method === "PATCH" ? "application/merge-patch+json" : "application/json";
  const authorization = `Bearer ${tokens.get(accounts[account]) ?? ""}`;
  const answer = await request(`${plane.server}${path}${method === "GET" ? "" : "?dryRun=All"}`, {
    method,
    dispatcher: agent,
    headers: { authorization, "content-type": type, ...headers },
    ...(body && { body: JSON.stringify(body) }),
  });
  const text = await answer.body.text();
  if (answer.statusCode < 300) return "";
  // Anything else would say nothing about the account.
  expect([path, answer.statusCode, text]).toEqual([path, 403, text]);
  return text;
}

const core = "/api/v1";
const inTeam = `${core}/namespaces/${team}`;
const sandboxes = `/apis/agents.kruise.io/v1alpha1/namespaces/${team}/sandboxes`;
const apiKeys = `/apis/ramet.dev/v1alpha1/namespaces/${team}/apikeys`;
const rbac = "/apis/rbac.authorization.k8s.io/v1";
const admission = "/apis/admissionregistration.k8s.io/v1";

function secret(namespace: string, name: string, type: string): Attempt {
  const annotations = { "kubernetes.io/service-account.name": "strong" };
  const isToken = type === "kubernetes.io/service-account-token";
  const data = type === "kubernetes.io/dockerconfigjson" ? { ".dockerconfigjson": btoa('{"auths":{}}') } : {};
  const metadata = { name, namespace, ...(isToken && { annotations }) };
  return [
    "POST",
    `${core}/namespaces/${namespace}/secrets`,
    { apiVersion: "v1", kind: "Secret", metadata, type, data },
  ];
}

function pod(podSpec: object, metadata: object): Attempt {
  return [
    "POST",
    `${inTeam}/pods`,
    { apiVersion: "v1", kind: "Pod", metadata: { name: "mine", ...metadata }, spec: podSpec },
  ];
}

function sandbox(podSpec: object): Attempt {
  const metadata = { name: "mine", namespace: team };
  return ["POST", sandboxes, objectOf("Sandbox", metadata, { template: { spec: podSpec } })];
}

function patch(path: string, body: object): Attempt {
  return ["PATCH", path, body];
}

function binding(kind: "RoleBinding" | "ClusterRoleBinding", at: string): Attempt {
  const roleRef = { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "cluster-admin" };
  const subjects = [{ kind: "ServiceAccount", name: clientApiName, namespace: systemNamespace }];
  const body = { apiVersion: "rbac.authorization.k8s.io/v1", kind, metadata: { name: "mine" }, roleRef, subjects };
  return ["POST", `${rbac}${at}/${kind.toLowerCase()}s`, body];
}

function webhook(kind: "Mutating" | "Validating"): Attempt {
  const body = {
    apiVersion: "admissionregistration.k8s.io/v1",
    kind: `${kind}WebhookConfiguration`,
    metadata: { name: "mine" },
  };
  return ["POST", `${admission}/${kind.toLowerCase()}webhookconfigurations`, body];
}

const own = { [labels.cell]: "true" };
const token = "kubernetes.io/service-account-token";
const image = "kubernetes.io/dockerconfigjson";
const fromSecret = (name: string) => [{ name: "X", valueFrom: { secretKeyRef: { name, key: "x" } } }];
const bound = { apiVersion: "v1", kind: "Binding", metadata: { name: "cell" }, target: { kind: "Node", name: "mine" } };
const tokenRequest = { apiVersion: "authentication.k8s.io/v1", kind: "TokenRequest", spec: {} };
const policyBody = { spec: { validations: [{ expression: "true" }] } };

/** What each account may do, by the request. An empty list: none of them. */
const steps: Record<string, Record<string, readonly [Attempt, ...Account[]]>> = {
  Secrets: {
    "a token of a service account in a namespace": [secret(team, "mine", token)],
    "a token of a service account in kube-system": [secret("kube-system", login, token)],
    "a token of a service account in ramet-system": [secret(systemNamespace, "mine", token)],
    "a Secret for image pulls with the name of a login": [
      secret(team, "ramet-registry-fedcba9876543210", image),
      "controllers",
    ],
    "a Secret for image pulls with another name": [secret(team, "mine", image)],
    "another type with the name of a login": [secret(team, "ramet-registry-fedcba9876543210", "Opaque")],
    "a key in ramet-system": [secret(systemNamespace, "mine", "Opaque"), "controllers"],
    "reading one": [["GET", `${inTeam}/secrets/secret`], "controllers"],
    "reading the login of a registry": [["GET", `${inTeam}/secrets/${login}`], "controllers"],
    "listing them": [["GET", `${inTeam}/secrets`]],
    "changing one": [patch(`${inTeam}/secrets/secret`, { stringData: { a: "b" } })],
    "deleting one": [["DELETE", `${inTeam}/secrets/secret`]],
  },
  "service accounts": {
    "a token": [["POST", `${inTeam}/serviceaccounts/strong/token`, tokenRequest]],
    "a token of the controllers": [
      ["POST", `${core}/namespaces/${systemNamespace}/serviceaccounts/${controllerName}/token`, tokenRequest],
    ],
    "an account": [
      ["POST", `${inTeam}/serviceaccounts`, { apiVersion: "v1", kind: "ServiceAccount", metadata: { name: "mine" } }],
    ],
    "acting as a user": [["GET", `${inTeam}/pods`, undefined, { "impersonate-user": "admin" }]],
    "an API key": [["POST", apiKeys, objectOf("ApiKey", { name: "mine", namespace: team }, {})]],
    "another digest of an API key": [patch(`${apiKeys}/mine`, { spec: { digests: [] } })],
    "the digests of API keys": [["GET", apiKeys], "client API", "gateway"],
  },
  Pods: {
    "a Pod with the files of a node": [pod(onNode, {})],
    "a Pod with the token of an account": [pod({ ...spec, serviceAccountName: "strong" }, { labels: own })],
    "a cell": [pod({ ...spec, automountServiceAccountToken: false }, { labels: own }), "controllers"],
    "another image of a cell": [
      patch(`${inTeam}/pods/cell`, { spec: { containers: [{ name: "main", image: "mine" }] } }),
    ],
    "another size of a cell": [patch(`${inTeam}/pods/cell/resize`, { spec })],
    "an ephemeral container in a cell": [
      patch(`${inTeam}/pods/cell/ephemeralcontainers`, { spec: { ephemeralContainers: spec.containers } }),
    ],
    "the status of a cell": [patch(`${inTeam}/pods/cell/status`, { status: { podIP: "192.0.2.1" } })],
    "a binding of a cell": [["POST", `${inTeam}/pods/cell/binding`, bound]],
    "a binding": [["POST", `${inTeam}/bindings`, bound]],
    "an eviction": [
      [
        "POST",
        `${inTeam}/pods/cell/eviction`,
        { apiVersion: "policy/v1", kind: "Eviction", metadata: { name: "cell" } },
      ],
    ],
    exec: [["POST", `${inTeam}/pods/cell/exec`]],
    attach: [["POST", `${inTeam}/pods/cell/attach`]],
    portforward: [["POST", `${inTeam}/pods/cell/portforward`]],
    proxy: [["POST", `${inTeam}/pods/cell/proxy`]],
    "the kubelet's API": [["GET", `${core}/nodes/mine/proxy/`]],
  },
  "rights and admission": {
    "a RoleBinding": [binding("RoleBinding", `/namespaces/${team}`)],
    "a ClusterRoleBinding": [binding("ClusterRoleBinding", "")],
    "more rights of its role": [patch(`${rbac}/clusterroles/${clientApiName}`, { rules: [] })],
    "more rights of the controllers' role": [patch(`${rbac}/clusterroles/${controllerName}`, { rules: [] })],
    "a mutating webhook": [webhook("Mutating")],
    "a validating webhook": [webhook("Validating")],
    "another admission policy": [patch(`${admission}/validatingadmissionpolicies/ramet-exec`, policyBody)],
    "no admission policy": [["DELETE", `${admission}/validatingadmissionpolicybindings/ramet-exec`]],
    "another CRD": [
      patch("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/sandboxes.agents.kruise.io", {
        metadata: { labels: { a: "b" } },
      }),
    ],
    "an allowed field of templates": [
      patch(inTeam, { metadata: { annotations: { "ramet.dev/allow-in-templates": "hostPath" } } }),
      "controllers",
    ],
  },
  status: {
    "of a sandbox, whose cell it names": [patch(`${sandboxes}/a/status`, { status: {} }), "controllers"],
    "of a checkpoint": [
      patch(`/apis/agents.kruise.io/v1alpha1/namespaces/${team}/checkpoints/a/status`, { status: {} }),
      "controllers",
    ],
    "of a node": [patch(`${core}/nodes/mine/status`, { status: {} })],
    "of a namespace": [patch(`${inTeam}/status`, { status: {} })],
    "of a request for a certificate": [["POST", "/apis/certificates.k8s.io/v1/certificatesigningrequests", {}]],
  },
  templates: {
    "that read the login of a registry": [
      sandbox({ containers: [{ ...spec.containers[0], env: fromSecret(login) }] }),
      "controllers",
    ],
    "that mount the login of a registry": [
      sandbox({ ...spec, volumes: [{ name: "a", secret: { secretName: login } }] }),
      "controllers",
    ],
    "that read a Secret": [
      sandbox({ containers: [{ ...spec.containers[0], env: fromSecret("secret") }] }),
      "controllers",
    ],
    "that pull with the login of a registry": [
      sandbox({ ...spec, imagePullSecrets: [{ name: login }] }),
      "client API",
      "controllers",
    ],
    "that pull with another Secret": [sandbox({ ...spec, imagePullSecrets: [{ name: "secret" }] }), "controllers"],
    "that act as an account": [sandbox({ ...spec, serviceAccountName: "strong" })],
    "of the host's network": [sandbox({ ...spec, hostNetwork: true })],
  },
};

describe.each(Object.keys(accounts) as Account[])("the token of the %s", (account) => {
  it.each(
    Object.entries(steps).flatMap(([of, table]) =>
      Object.entries(table).map(([what, row]) => [of, what, row] as const),
    ),
  )("gives no more of %s than its own work needs: %s", async (_, __, [attempt, ...allowed]) => {
    expect(await refused(account, attempt)).toMatch(allowed.includes(account) ? /^$/ : /./);
  });
});

it("lets the controllers give a cell its namespace's directory in the cache of a node, and no other directory", async () => {
  const { uid } = (await administrator.resource(coreResources.namespaces).get({ name: team })).metadata;
  const withPath = (path: string): Attempt => {
    const volumes = [{ name: "ramet-node-cache", hostPath: { path } }];
    return pod({ ...spec, volumes, automountServiceAccountToken: false }, { labels: own });
  };
  const install = async (nodeCachePath: unknown, allowed: string): Promise<void> => {
    for (const manifest of controllerPolicies({ cells: { nodeCachePath } }))
      await administrator.resource(refOf(manifest)).apply(manifest, { fieldManager: "test", force: true });
    await vi.waitFor(async () => {
      expect(await refused("controllers", withPath(allowed))).toBe("");
    }, 20_000);
  };
  const only = /only Pods without hostPath volumes/;
  expect(await refused("controllers", withPath(`/cache/${uid}`))).toMatch(only);
  await install("/cache", `/cache/${uid}`);
  for (const path of ["/", "/cache", "/cache/other", `/other/${uid}`])
    expect(await refused("controllers", withPath(path))).toMatch(only);
  // A Pulumi program knows the path later than the policy.
  await install(Promise.resolve("/cache"), `/other/${uid}`);
  for (const path of ["/", "/cache", "/cache/other"])
    expect(await refused("controllers", withPath(path))).toMatch(only);
});
