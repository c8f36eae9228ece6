import { randomBytes } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { inject } from "vitest";
import { type ApiKeyFormat, newApiKey } from "../../src/api/keys/api-key-text.ts";
import { apiKeyKind } from "../../src/api/kinds/api-key.ts";
import { sandboxKind } from "../../src/api/kinds/sandbox.ts";
import { sandboxSetKind } from "../../src/api/kinds/sandbox-set.ts";
import { sandboxTemplateKind } from "../../src/api/kinds/sandbox-template.ts";
import { group, rametApiVersion, rametGroup } from "../../src/api/schema/kind.ts";
import { isAllowed } from "../../src/kube/access-review.ts";
import type { KubeClient } from "../../src/kube/kube-client.ts";
import { coreResources, refOf, type ResourceRef } from "../../src/kube/resource-ref.ts";
import { clusterTemplates } from "../../src/local/supervisor/seed-cluster.ts";
import { readPort } from "../../src/local/supervisor/parts.ts";
import { TestCluster } from "../cluster/local-cluster.ts";
import { type RbacRule, userOf } from "../setup/until-allowed.ts";

/** A real local cluster for unmodified clients. */
export class ClientWorld {
  readonly cluster: TestCluster;
  readonly client: KubeClient;
  /** The namespace of the file's own objects. */
  readonly namespace: string;
  readonly #isShared: boolean;

  private constructor(cluster: TestCluster, client: KubeClient, { namespace = "default", isShared = false } = {}) {
    this.cluster = cluster;
    this.client = client;
    this.namespace = namespace;
    this.#isShared = isShared;
  }

  /** With `ownImages`, the cluster has only the images that are added with its environment. */
  static async open(options: { ownImages?: boolean } = {}): Promise<ClientWorld> {
    const cluster = await TestCluster.create(options);
    await cluster.up();
    return new ClientWorld(cluster, await cluster.client());
  }

  /**
   * The cluster that the files of the project share; the first one starts it. For files that kill, suspend, measure and
   * configure none of its processes.
   * @param namespace of this file only. Each but `default` gets the cluster's templates
   */
  static async shared(namespace: string): Promise<ClientWorld> {
    const cluster = TestCluster.at(inject("sharedClusterHome"));
    await cluster.up();
    const world = new ClientWorld(cluster, await cluster.client(), { namespace, isShared: true });
    if (namespace !== "default") await world.#createTemplates();
    return world;
  }

  /** Removes the cluster, or from a shared one what uses its machine. */
  async close(): Promise<void> {
    if (!this.#isShared) {
      await this.cluster.remove();
      return;
    }
    for (const kind of [sandboxSetKind, sandboxKind]) {
      const resource = this.client.resource(refOf(kind));
      const { items } = await resource.list({ namespace: this.namespace });
      await Promise.all(items.map(({ metadata: { namespace = "", name } }) => resource.delete({ namespace, name })));
    }
    await this.client.close();
  }

  get apiUrl(): string {
    return `http://127.0.0.1:${readPort(this.cluster.directory.clientApiPort) ?? 0}`;
  }

  get sandboxUrl(): string {
    return `http://127.0.0.1:${readPort(this.cluster.directory.gatewayPort) ?? 0}`;
  }

  /** The settings of a client with a new key, which may do everything that a client can do in the namespace. */
  async connection(namespace = this.namespace, name = "agent", limits?: object) {
    return { apiKey: await this.createKey(namespace, name, limits), apiUrl: this.apiUrl, sandboxUrl: this.sandboxUrl };
  }

  /** The same settings as environment variables. */
  async environment(namespace?: string): Promise<Record<string, string>> {
    const { apiKey, apiUrl, sandboxUrl } = await this.connection(namespace);
    return { E2B_API_KEY: apiKey, E2B_API_URL: apiUrl, E2B_SANDBOX_URL: sandboxUrl };
  }

  /** The same, for the client of AgentTier. */
  async agentTierEnvironment(namespace?: string, name?: string): Promise<Record<string, string>> {
    const { apiKey, apiUrl } = await this.connection(namespace, name);
    return { AGENTTIER_API_KEY: apiKey, AGENTTIER_API_URL: apiUrl };
  }

  /** The same, for the clients of Sandbox0. */
  async sandbox0Environment(namespace = this.namespace, name = "agent"): Promise<Record<string, string>> {
    return {
      SANDBOX0_TOKEN: await this.createKey(namespace, name, undefined, "sandbox0"),
      SANDBOX0_BASE_URL: this.apiUrl,
    };
  }

  /** Creates a key, its service account and the account's rights. @returns the text of the key */
  async createKey(namespace: string, name: string, limits?: object, format: ApiKeyFormat = "e2b"): Promise<string> {
    await this.createAccount(namespace, name);
    const { text, digest } = newApiKey({ namespace, name, format, random: randomBytes });
    await this.client.resource(refOf(apiKeyKind)).apply(
      {
        apiVersion: rametApiVersion,
        kind: "ApiKey",
        metadata: { namespace, name },
        spec: { serviceAccountName: name, digests: [{ digest }], ...(limits && { limits }) },
      },
      by,
    );
    return text;
  }

  async createAccount(namespace: string, name: string, rules: readonly RbacRule[] = clientRules): Promise<void> {
    const metadata = { namespace, name };
    const apiVersion = "rbac.authorization.k8s.io/v1";
    await this.#createNamespace(namespace);
    await this.client
      .resource(coreResources.serviceAccounts)
      .apply({ apiVersion: "v1", kind: "ServiceAccount", metadata }, by);
    await this.client.resource(rbac("roles", "Role")).apply({ apiVersion, kind: "Role", metadata, rules }, by);
    await this.client.resource(rbac("rolebindings", "RoleBinding")).apply(
      {
        apiVersion,
        kind: "RoleBinding",
        metadata,
        roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "Role", name },
        subjects: [{ kind: "ServiceAccount", name, namespace }],
      },
      by,
    );
    // Changed rights take effect after a moment, and servers remember the first decision.
    const mayCreate = rules.some(
      ({ resources, verbs }) => resources?.includes("sandboxes") && verbs.includes("create"),
    );
    const user = userOf(metadata);
    const attributes = { namespace, group, resource: "sandboxes", verb: "create" };
    while ((await isAllowed(this.client, { user }, attributes)) !== mayCreate) await delay(20);
  }

  /** Creates a set of sandboxes with Python, and waits until they are ready. */
  async createSet(name: string, replicas: number, spec: object = {}): Promise<void> {
    const sets = this.client.of(sandboxSetKind);
    const template = { spec: { containers: [{ name: "main", image: "python", command: ["sleep", "infinity"] }] } };
    const metadata = { namespace: this.namespace, name };
    await sets.create({
      apiVersion: `${group}/v1alpha1`,
      kind: "SandboxSet",
      metadata,
      spec: { replicas, template, ...spec },
    });
    await this.cluster.until(
      refOf(sandboxSetKind),
      metadata,
      (value) => sandboxSetKind.object.parse(value),
      (set) => set?.status?.availableReplicas === replicas,
    );
  }

  async #createNamespace(name: string): Promise<void> {
    const namespaces = this.client.resource(coreResources.namespaces);
    await namespaces.apply({ apiVersion: "v1", kind: "Namespace", metadata: { name } }, by);
  }

  async #createTemplates(): Promise<void> {
    const { namespace } = this;
    await this.#createNamespace(namespace);
    const templates = this.client.resource(refOf(sandboxTemplateKind));
    for (const template of clusterTemplates) {
      await templates.apply({ ...template, metadata: { ...template.metadata, namespace } }, by);
    }
  }
}

const by = { fieldManager: "test", force: true };

/** The rights that a client needs for all of its operations. */
export const clientRules: RbacRule[] = [
  { apiGroups: [group], resources: ["sandboxes"], verbs: ["get", "list", "create", "patch", "delete"] },
  { apiGroups: [group], resources: ["sandboxes/exec"], verbs: ["create"] },
  { apiGroups: [group], resources: ["checkpoints"], verbs: ["list", "create", "delete"] },
  { apiGroups: [rametGroup], resources: ["namedsnapshots"], verbs: ["get", "list", "create", "patch", "delete"] },
  { apiGroups: [group], resources: ["sandboxtemplates", "sandboxsets"], verbs: ["get", "list"] },
];

function rbac(plural: string, kind: string): ResourceRef {
  return { group: "rbac.authorization.k8s.io", version: "v1", plural, kind, namespaced: true };
}
