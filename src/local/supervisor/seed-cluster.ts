import { hash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import * as z from "zod";
import { clusterTemplatePrefix, systemNamespace } from "../../api/names/system-names.ts";
import { apiVersion, group } from "../../api/schema/kind.ts";
import { delay } from "../../base/clock.ts";
import { RametError } from "../../base/errors.ts";
import { gatewayAddressManifests } from "../../install/gateway-address.ts";
import type { Manifest } from "../../install/manifest.ts";
import { KubeClient, type KubeClientOptions } from "../../kube/kube-client.ts";
import { connectionFromKubeconfig } from "../../kube/kubeconfig.ts";
import type { ResourceRef } from "../../kube/resource-ref.ts";
import { defaultClassAnnotation } from "../../kube/volumes/snapshots.ts";
import { volumeResources } from "../../kube/volumes/volumes.ts";
import type { ClusterDirectory } from "../cluster-directory.ts";
import { driverName } from "../csi/unary.ts";
import { packageRoot } from "../tools/tool.ts";

/**
 * Declares the driver of local volumes and its classes, and the kinds of snapshots if the build could fetch their CRDs. Once for each
 * version of them: it would delay every start, and a user may have changed or deleted a class.
 */
export async function seedVolumes(client: KubeClient, signal?: AbortSignal): Promise<void> {
  const { driver, storageClass, snapshotClasses, groupClass } = volumeObjects();
  const classes = [...snapshotClasses, groupClass];
  const crds = await snapshotCrds(packageRoot());
  const digest = hash("sha256", JSON.stringify([driver, storageClass, classes, crds]));
  const known = await client.resource(volumeResources.drivers).find(driver.metadata, { signal });
  if (known?.metadata.annotations?.[seeded] === digest) return;
  await Promise.all([storageClass, ...(crds ?? [])].map((manifest) => applyManifest(client, manifest, signal)));
  if (crds !== undefined) await Promise.all(classes.map((manifest) => applyWhenServed(client, manifest, signal)));
  // The last one, because it says that the others are there.
  const metadata = { ...driver.metadata, annotations: { [seeded]: digest } };
  await applyManifest(client, { ...driver, metadata }, signal);
}

/** An annotation of the CSIDriver: the digest of the objects that were declared. */
const seeded = "local.csi.ramet.dev/declared";

const pauseMilliseconds = 100;
const mostTries = 300;

/** The API server serves a new kind a moment after it has its CRD. */
async function applyWhenServed(client: KubeClient, manifest: Manifest, signal?: AbortSignal): Promise<void> {
  for (let tries = 1; ; tries += 1) {
    try {
      await applyManifest(client, manifest, signal);
      return;
    } catch (error) {
      if (RametError.from(error).code !== "NotFound" || tries === mostTries) throw error;
    }
    await delay(client.clock, pauseMilliseconds, signal);
  }
}

/** Applies an object of the cluster's own. */
export async function applyManifest(client: KubeClient, manifest: Manifest, signal?: AbortSignal): Promise<void> {
  const [version = "", group = ""] = manifest.apiVersion.split("/").reverse();
  const { kind, metadata } = manifest;
  const plural = `${kind.toLowerCase()}s`.replace(/ys$/, "ies").replace(/sss$/, "sses");
  const resource: ResourceRef = { group, version, plural, kind, namespaced: metadata.namespace !== undefined };
  await client.resource(resource).apply(manifest, { fieldManager: "ramet-local", force: true, signal });
}

/**
 * The account of users who enter sandboxes of a local cluster. Gateways accept tokens of service accounts only, and the user of
 * the cluster's kubeconfig has a certificate; this user may request the account's tokens.
 */
const account = { name: "ramet-local-user", namespace: systemNamespace };

/** Publishes the gateway's address in the cluster, and lets its users enter sandboxes and reach their ports. */
export async function publishGateway(directory: ClusterDirectory, port: number): Promise<void> {
  await withClient(directory, (client) =>
    Promise.all(manifests(port).map((manifest) => applyManifest(client, manifest))),
  );
}

/** Calls `work` with a client of the cluster's administrator. */
export async function withClient<T>(
  { kubeconfig }: ClusterDirectory,
  work: (client: KubeClient) => Promise<T>,
  options?: KubeClientOptions,
): Promise<T> {
  const client = new KubeClient(await connectionFromKubeconfig({ path: kubeconfig }), options);
  try {
    return await work(client);
  } finally {
    await client.close();
  }
}

function manifests(port: number): Manifest[] {
  const { name, namespace } = account;
  const apiVersion = "rbac.authorization.k8s.io/v1";
  const rules = [{ apiGroups: [group], resources: ["sandboxes/exec", "sandboxes/proxy"], verbs: ["create"] }];
  return [
    ...gatewayAddressManifests({
      url: `http://127.0.0.1:${port}`,
      domain: "localhost",
      serviceAccount: `${namespace}/${name}`,
    }),
    { apiVersion: "v1", kind: "ServiceAccount", metadata: account },
    { apiVersion, kind: "ClusterRole", metadata: { name }, rules },
    {
      apiVersion,
      kind: "ClusterRoleBinding",
      metadata: { name },
      roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name },
      subjects: [{ kind: "ServiceAccount", ...account }],
    },
  ];
}

/** Names that E2B's clients use, and the templates of the local cluster that they mean: options of `ramet client-api`. */
export const templateAliases = ["base=python", "default=python", "code-interpreter-v1=code-interpreter"].flatMap(
  (alias) => ["--template-alias", alias],
);

/** The templates of a new cluster, one for each image that Ramet builds. */
export const clusterTemplates = [
  template("python", { command: ["sleep", "infinity"] }),
  template("code-interpreter", {
    ports: [{ containerPort: 49999 }],
    // Ready means that code can run.
    startupProbe: { httpGet: { path: "/health", port: 49999 }, periodSeconds: 1, failureThreshold: 120 },
  }),
];

function template(image: string, container: object) {
  return {
    apiVersion,
    kind: "SandboxTemplate",
    metadata: { namespace: "default", name: `${clusterTemplatePrefix}${image}` },
    spec: { template: { spec: { containers: [{ name: "sandbox", image, ...container }] } } },
  };
}

/** The class of every claim that names none. */
export const storageClassName = "ramet-local";

/** The objects with which a cluster knows the driver: its CSIDriver, and its classes of volumes, snapshots and groups. */
export function volumeObjects() {
  // The names that SnapshotStack gives to the classes of a driver.
  const nameFor = (purpose: string): string => `${driverName.replaceAll(".", "-")}-${purpose}`;
  const snapshotClass = (purpose: string, deletionPolicy: string, annotations = {}): Manifest => ({
    apiVersion: "snapshot.storage.k8s.io/v1",
    kind: "VolumeSnapshotClass",
    metadata: { name: nameFor(purpose), annotations },
    driver: driverName,
    deletionPolicy,
  });
  return {
    driver: {
      apiVersion: "storage.k8s.io/v1",
      kind: "CSIDriver",
      metadata: { name: driverName },
      spec: { attachRequired: false, podInfoOnMount: false, fsGroupPolicy: "File", storageCapacity: false },
    },
    storageClass: {
      apiVersion: "storage.k8s.io/v1",
      kind: "StorageClass",
      metadata: { name: storageClassName, annotations: { "storageclass.kubernetes.io/is-default-class": "true" } },
      provisioner: driverName,
      reclaimPolicy: "Delete",
      allowVolumeExpansion: true,
      volumeBindingMode: "Immediate",
    },
    snapshotClasses: [
      snapshotClass("clone-delete", "Delete", { [defaultClassAnnotation]: "true" }),
      snapshotClass("checkpoint-retain", "Retain"),
    ],
    groupClass: {
      apiVersion: "groupsnapshot.storage.k8s.io/v1",
      kind: "VolumeGroupSnapshotClass",
      metadata: { name: nameFor("checkpoint-retain") },
      driver: driverName,
      deletionPolicy: "Retain",
    },
  };
}

const Crds = z.object({
  crds: z.array(
    z.looseObject({
      apiVersion: z.string(),
      kind: z.string(),
      metadata: z.looseObject({ name: z.string() }),
    }),
  ),
});

/** The CRDs of VolumeSnapshots and VolumeGroupSnapshots from the package's directory, as the build has fetched them; undefined if it could not. */
export async function snapshotCrds(root: string): Promise<Manifest[] | undefined> {
  const text = await readFile(join(root, "dist/external-snapshotter/crds.json"), "utf8").catch(() => undefined);
  if (text === undefined) return undefined;
  return Crds.parse(JSON.parse(text)).crds;
}
