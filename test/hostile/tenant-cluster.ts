import { expect, vi } from "vitest";
import { RametError } from "../../src/base/errors.ts";
import { admissionPolicies } from "../../src/install/admission-policies.ts";
import type { Manifest } from "../../src/install/manifest.ts";
import { sandboxResources } from "../../src/controllers/cluster/resources.ts";
import { KubeClient } from "../../src/kube/kube-client.ts";
import type { KubeManifest, KubeObject } from "../../src/kube/object.ts";
import { coreResources, type ResourceRef } from "../../src/kube/resource-ref.ts";
import { type Cluster, type ClusterOptions, openCluster } from "../cluster/controllers-cluster.ts";
import { StandInNode } from "../cluster/controllers-stand-in-node.ts";
import { type RbacRule, untilAllowed } from "../setup/until-allowed.ts";

/** A cluster whose tenants have few rights. Cells are stand-ins: these tests are about the API. */
export interface TenantCluster extends Omit<Cluster, "create"> {
  /** The requests of a user. */
  as: (user: string) => KubeClient;
  /** Gives a user rights in a namespace. */
  grant: (user: string, namespace: string, rules: readonly RbacRule[]) => Promise<void>;
  installPolicies: () => Promise<void>;
}

/** The rights of an agent developer: sandboxes and what belongs to them, and neither Pods nor Secrets. */
export const developer: readonly RbacRule[] = [
  {
    apiGroups: ["agents.kruise.io", "ramet.dev"],
    resources: ["sandboxes", "sandboxsets", "sandboxtemplates", "sandboxclaims", "checkpoints", "namedsnapshots"],
    verbs: ["get", "list", "create", "update", "patch", "delete"],
  },
];

export async function openTenantCluster(options: Pick<ClusterOptions, "importVolumes"> = {}): Promise<TenantCluster> {
  const cluster = await openCluster({ startNode: new StandInNode().start, ...options });
  const clients: KubeClient[] = [];
  return {
    ...cluster,
    as: (user) => {
      const groups = ["system:authenticated"];
      const client = new KubeClient({ ...cluster.connection, impersonate: { user, groups, extra: {} } });
      clients.push(client);
      return client;
    },
    grant: async (user, namespace, rules) => {
      const metadata = { name: user, namespace };
      const apiVersion = "rbac.authorization.k8s.io/v1";
      const apiGroup = "rbac.authorization.k8s.io";
      const binding = {
        roleRef: { apiGroup, kind: "Role", name: user },
        subjects: [{ apiGroup, kind: "User", name: user }],
      };
      await apply(cluster.client, { apiVersion, kind: "Role", metadata, rules });
      await apply(cluster.client, { apiVersion, kind: "RoleBinding", metadata, ...binding });
      await untilAllowed(cluster.client, { user, namespace, rules });
    },
    installPolicies: async () => {
      for (const manifest of admissionPolicies()) await apply(cluster.client, manifest);
    },
    close: async () => {
      await Promise.all(clients.map((client) => client.close()));
      await cluster.close();
    },
  };
}

const patient = { timeout: 20_000, interval: 10 };

async function apply(client: KubeClient, manifest: KubeManifest): Promise<void> {
  await client.resource(refOf(manifest as Manifest)).apply(manifest, { fieldManager: "test", force: true });
}

function refOf({ apiVersion, kind, metadata }: Manifest): ResourceRef {
  const [version = "", group = ""] = apiVersion.split("/").reverse();
  const plural = `${kind.toLowerCase()}s`.replace(/ys$/, "ies");
  return { group, version, plural, kind, namespaced: metadata.namespace !== undefined };
}

/** An object of one of Ramet's kinds, or a Pod. */
export function objectOf(kind: string, metadata: { name: string; namespace: string }, spec: object): KubeManifest {
  const ref = refOfKind(kind);
  return { apiVersion: ref.group === "" ? ref.version : `${ref.group}/${ref.version}`, kind, metadata, spec };
}

export function refOfKind(kind: string): ResourceRef {
  return Object.values(sandboxResources).find((one) => one.kind === kind) ?? coreResources.pods;
}

/** Has the API server check the creation of an object as a user. */
export function dryRun(client: KubeClient, object: KubeManifest): Promise<unknown> {
  // The object that is answered has no resource version, as it was not stored.
  const resource = client.resource(refOfKind(object.kind), (value) => value as KubeObject);
  return resource.create(object, { dryRun: true });
}

/** Why a request was refused; empty if it was not. */
export async function refusal(request: Promise<unknown>): Promise<string> {
  return request.then(
    () => "",
    (error: unknown) => RametError.from(error).describe(),
  );
}

/** An API server knows a policy or an annotation some moments after it was written. */
export async function untilRefused(attempt: () => Promise<unknown>, why: RegExp): Promise<void> {
  await vi.waitFor(async () => {
    expect(await refusal(attempt())).toMatch(why);
  }, patient);
}
