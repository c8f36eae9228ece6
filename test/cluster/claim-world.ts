import { apiVersion } from "../../src/api/schema/kind.ts";
import { type SandboxSet, sandboxSetKind } from "../../src/api/kinds/sandbox-set.ts";
import { type Sandbox as SandboxObject, sandboxKind } from "../../src/api/kinds/sandbox.ts";
import { labels } from "../../src/api/names/labels.ts";
import type { ClaimParts } from "../../src/operations/claim/claim-sandbox.ts";
import type { Connection } from "../../src/kube/connection.ts";
import { KubeClient, type KubeClientOptions } from "../../src/kube/kube-client.ts";
import { coreResources } from "../../src/kube/resource-ref.ts";
import { openControlPlane } from "../setup/control-plane.ts";
import { type Claimer, openClaimer } from "./claimer.ts";

/** A real API server with Ramet's kinds and claimers, but without controllers. */
export interface ClaimWorld {
  client: KubeClient;
  connection: Connection;
  /** Kubeconfig of the administrator. */
  kubeconfigPath: string;
  claimer: (options?: KubeClientOptions) => Promise<Claimer>;
  /** Creates a set `set` in a new namespace, with stand-in sandboxes whose status is ready: nothing runs in them. */
  stock: (namespace: string, count: number, annotations?: Record<string, string>) => Promise<SandboxObject[]>;
  sandboxes: (namespace: string) => Promise<SandboxObject[]>;
  close: () => Promise<void>;
}

export async function openClaimWorld(): Promise<ClaimWorld> {
  const controlPlane = await openControlPlane();
  const { connection } = controlPlane;
  const client = new KubeClient(connection);
  const sandboxes = client.of(sandboxKind);
  const sets = client.of(sandboxSetKind);
  const claimers: Claimer[] = [];
  return {
    client,
    connection,
    kubeconfigPath: controlPlane.kubeconfigPath,
    claimer: async (options) => {
      const claimer = await openClaimer(new KubeClient(connection, options));
      claimers.push(claimer);
      return claimer;
    },
    stock: async (namespace, count, annotations) => {
      await client
        .resource(coreResources.namespaces)
        .create({ apiVersion: "v1", kind: "Namespace", metadata: { name: namespace } })
        .catch(() => undefined);
      const set =
        (await sets.find({ namespace, name: "set" })) ??
        (await sets.create({
          apiVersion,
          kind: "SandboxSet",
          metadata: { name: "set", namespace },
          spec: { replicas: count, template: { spec: { containers: [{ name: "main", image: "python" }] } } },
        }));
      return Promise.all(Array.from({ length: count }, () => readySandbox(sandboxes, set, annotations)));
    },
    sandboxes: async (namespace) => (await sandboxes.list({ namespace })).items,
    close: async () => {
      await Promise.all(claimers.map((claimer) => claimer.close()));
      await client.close();
      await controlPlane.stop();
    },
  };
}

/** A stand-in for the set controller, the sandbox controller and the cell: writes a ready sandbox of a set. */
async function readySandbox(
  sandboxes: ClaimParts["sandboxes"],
  { metadata: { name, namespace, uid } }: SandboxSet,
  annotations: Record<string, string> = {},
): Promise<SandboxObject> {
  const made = await sandboxes.create({
    apiVersion,
    kind: "Sandbox",
    metadata: {
      generateName: `${name}-`,
      namespace,
      labels: { [labels.sandboxPool]: name, [labels.sandboxClaimed]: "false" },
      annotations,
      ownerReferences: [{ apiVersion, kind: "SandboxSet", name, uid, controller: true, blockOwnerDeletion: true }],
    },
    spec: {},
  });
  const ready = { type: "Ready", status: "True", reason: "PodReady", message: "", lastTransitionTime: aTime };
  const status = { phase: "Running", conditions: [ready] };
  return sandboxes.mergePatch(made.metadata, { status }, { subresource: "status" });
}

const aTime = "2026-01-01T00:00:00Z";
