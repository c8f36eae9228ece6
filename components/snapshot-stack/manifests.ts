import { readFile } from "node:fs/promises";
import { join } from "node:path";
import * as z from "zod";
import { type Input, output } from "@pulumi/pulumi";
import type { StackPlan } from "../../provider/handlers/snapshot-stack/stack-findings.ts";
import { RametError } from "../../src/base/errors.ts";
import { waitForConditions } from "../await.ts";
import { type SnapshotStackArgs, controllerNamespace } from "./args.ts";
import type { Manifest } from "../../src/install/manifest.ts";
import { controllerNames } from "../../provider/handlers/snapshot-stack/observed-cluster.ts";
import { disruptionBudget, restrictedSecurityContext, spreadOverNodes } from "../../src/install/server-deployment.ts";
import { boundRole, rights } from "../../src/install/rights.ts";

/** The CRDs that a plan declares. */
export async function crdManifests(plan: StackPlan, annotations: Record<string, string>): Promise<Manifest[]> {
  if (!plan.crds && !plan.groupCrds) return [];
  const { crds } = await upstreamCrds();
  const isOfGroups = ({ metadata }: Manifest): boolean => metadata.name.endsWith(".groupsnapshot.storage.k8s.io");
  return crds
    .filter((crd) => (isOfGroups(crd) ? plan.groupCrds : plan.crds))
    .map((crd) => ({
      ...crd,
      metadata: {
        ...crd.metadata,
        annotations: {
          ...crd.metadata.annotations,
          ...annotations,
          ...waitForConditions("Established"),
        },
      },
    }));
}

/** The manifests of the controller, if the plan declares one. */
export async function controllerManifests(
  plan: StackPlan,
  { controller = {}, groupSnapshots = false }: SnapshotStackArgs,
  annotations: Record<string, string>,
): Promise<Manifest[]> {
  if (!plan.controller) return [];
  const { version } = await upstreamCrds();
  const { namespace = controllerNamespace, replicas = 2, workers = 50, requestsPerSecond = 100 } = controller;
  const image = controller.image ?? `registry.k8s.io/sig-storage/snapshot-controller:${version}`;
  return snapshotControllerManifests({
    namespace,
    annotations,
    image,
    replicas,
    workers,
    requestsPerSecond,
    groupSnapshots,
  });
}

/** The CRDs from the Go module of external-snapshotter, with its version. */
interface UpstreamCrds {
  version: string;
  crds: Manifest[];
}

/**
 * Reads the CRDs that the build packed (`scripts/snapshot-crds.mjs`).
 * @throws RametError `NotFound` if the build did not
 */
export async function upstreamCrds(): Promise<UpstreamCrds> {
  // Relative to the bundle, and to the sources.
  for (const up of ["..", "../../dist"]) {
    const text = await read(join(import.meta.dirname, up, "external-snapshotter", "crds.json"));
    if (text !== undefined) return Packed.parse(JSON.parse(text));
  }
  throw new RametError("NotFound", "This package does not contain the CRDs of external-snapshotter", {
    hint: "It was built without Go or without a network; run npm run build again with both",
  });
}

function read(path: string): Promise<string | undefined> {
  return readFile(path, "utf8").catch(() => undefined);
}

const Packed = z.object({
  version: z.string(),
  crds: z.array(
    z.looseObject({
      apiVersion: z.string(),
      kind: z.literal("CustomResourceDefinition"),
      metadata: z.looseObject({ name: z.string(), annotations: z.record(z.string(), z.string()).default({}) }),
      spec: z.looseObject({ group: z.string() }),
    }),
  ),
});

interface ControllerOptions {
  namespace: string;
  /** Annotations of each object, which name the declaring resource. */
  annotations: Record<string, string>;
  image: Input<string>;
  replicas: Input<number>;
  workers: Input<number>;
  requestsPerSecond: Input<number>;
  groupSnapshots: boolean;
}

/** The snapshot-controller with its RBAC objects. */
function snapshotControllerManifests(options: ControllerOptions): Manifest[] {
  const { namespace, annotations } = options;
  return [
    { apiVersion: "v1", kind: "ServiceAccount", metadata: { name: controllerName, namespace, annotations } },
    ...roles(options),
    deployment(options),
    disruptionBudget({ name: controllerName, namespace, annotations }, labels),
  ];
}

const { controller: controllerName, ...names } = controllerNames;
const labels = { "app.kubernetes.io/name": controllerName };
const metricsPort = 8080;

function roles({ namespace, annotations, groupSnapshots }: ControllerOptions): Manifest[] {
  const subject = { kind: "ServiceAccount", name: controllerName, namespace };
  const everywhere = [...controllerRights, ...(groupSnapshots ? groupRights : [])];
  const binding = { name: names.clusterRoleBinding, annotations };
  return [
    ...boundRole({ name: names.clusterRole, annotations }, everywhere, subject, binding),
    ...boundRole({ name: names.lease, namespace, annotations }, leaseRights, subject),
  ];
}

function deployment(options: ControllerOptions): Manifest {
  const { namespace, annotations, replicas } = options;
  return {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: { name: controllerName, namespace, annotations, labels },
    spec: {
      replicas,
      selector: { matchLabels: labels },
      // The controller exits if the CRDs are not served within 30 s, so readiness means nothing before.
      minReadySeconds: 35,
      strategy: { type: "RollingUpdate", rollingUpdate: { maxSurge: 0, maxUnavailable: 1 } },
      template: { metadata: { labels }, spec: pod(options) },
    },
  };
}

function pod({ image, workers, requestsPerSecond, groupSnapshots }: ControllerOptions) {
  return {
    serviceAccountName: controllerName,
    priorityClassName: "system-cluster-critical",
    securityContext: { runAsNonRoot: true, runAsUser: 65532, seccompProfile: { type: "RuntimeDefault" } },
    topologySpreadConstraints: spreadOverNodes(labels),
    containers: [
      {
        name: controllerName,
        image,
        args: [
          "--leader-election=true",
          argument("worker-threads", workers),
          // With the default of 5 requests per second, eighty simultaneous snapshots take minutes
          // (external-snapshotter#1344).
          argument("kube-api-qps", requestsPerSecond),
          argument(
            "kube-api-burst",
            output(requestsPerSecond).apply((number) => number * 2),
          ),
          `--http-endpoint=:${metricsPort}`,
          // On by default since v8.7, which without the CRDs of groups then starts 30 s later.
          `--feature-gates=CSIVolumeGroupSnapshot=${groupSnapshots}`,
        ],
        ports: [{ name: "metrics", containerPort: metricsPort }],
        livenessProbe: { httpGet: { path: "/healthz/leader-election", port: "metrics" }, initialDelaySeconds: 10 },
        resources: { requests: { cpu: "20m", memory: "64Mi" } },
        securityContext: restrictedSecurityContext,
      },
    ],
  };
}

function argument(name: string, value: Input<number>): Input<string> {
  return output(value).apply((number) => `--${name}=${number}`);
}

/**
 * Permissions of external-snapshotter v8.6 in all namespaces, from its manifests
 * (deploy/kubernetes/snapshot-controller).
 */
const controllerRights = rights("cluster", {
  "persistentvolumes: get list watch": "find the volume of a claim",
  "persistentvolumeclaims: get list watch update": "set a finalizer on a claim while it is the source of a snapshot",
  "events: list watch create update patch": "report transitions as events",
  "volumesnapshotclasses.snapshot.storage.k8s.io: get list watch": "read classes",
  "volumesnapshotcontents.snapshot.storage.k8s.io: get list watch create update patch delete":
    "create, bind and release the content of a snapshot",
  "volumesnapshots.snapshot.storage.k8s.io: get list watch create update patch delete":
    "set the class, finalizers and binding of snapshots; create and delete members of a group",
  "volumesnapshots.snapshot.storage.k8s.io/status: update patch": "report the state of a snapshot",
  "volumesnapshotcontents.snapshot.storage.k8s.io/status: patch": "mark a content for deletion",
});

/** Additional permissions for group snapshots. */
const groupRights = rights("cluster", {
  "volumegroupsnapshotclasses.groupsnapshot.storage.k8s.io: get list watch": "read group classes",
  "volumegroupsnapshotcontents.groupsnapshot.storage.k8s.io: get list watch create update patch delete":
    "create, bind and release the content of a group",
  "volumegroupsnapshots.groupsnapshot.storage.k8s.io: get list watch update patch":
    "set the class, finalizers and binding of groups",
  "volumegroupsnapshots.groupsnapshot.storage.k8s.io/status: update patch": "report the state of a group",
  "volumegroupsnapshotcontents.groupsnapshot.storage.k8s.io/status: patch": "mark a group's content for deletion",
});

/** Permissions in the controller's namespace. */
const leaseRights = rights("cluster", {
  "leases.coordination.k8s.io: get list watch create update delete": "elect the active controller",
});
