import {
  controllerLabels as labels,
  controllerName as name,
  controllersMode,
  systemNamespace,
} from "../api/names/system-names.ts";
import { parseLabelSelector } from "../api/names/label-selector.ts";
import { rametGroup } from "../api/schema/kind.ts";
import { rightsBeside } from "./beside-rights.ts";
import { type FieldNames, parseInstallField } from "./install-fields.ts";
import type { InstallOptions } from "./install-options.ts";
import type { Manifest } from "./manifest.ts";
import { lastingManifests, networkPolicy, quotaFlags } from "./manifests.ts";
import {
  disruptionBudget,
  metricsPort,
  metricsService,
  restrictedSecurityContext,
  serverResources,
  spreadOverNodes,
} from "./replicas.ts";
import { roles } from "./rights.ts";
import { recipePolicies } from "./template-policies.ts";

/** What an installation beside other controllers can set. */
export type BesideInstallOptions<Text = string, Count = number> = Pick<
  InstallOptions<Text, Count>,
  | "namespace"
  | "annotations"
  | "image"
  | "replicas"
  | "clusterRanges"
  | "metricsNamespace"
  | "namespaceQuota"
  | "namespaceSelector"
> & { beside: Text };

/** The same for a user's options, as `parseInstallOptions`. @throws RametError `InvalidArgument` */
export function parseBesideOptions(given: BesideInstallOptions, fieldNames: FieldNames): BesideInstallOptions {
  const { namespace, image, replicas, clusterRanges, metricsNamespace, namespaceQuota = {}, namespaceSelector } = given;
  const quotas = besideQuotas.flatMap((quota) => {
    const limit = namespaceQuota[quota];
    const field = `namespaceQuota.${quota}` as const;
    return limit === undefined ? [] : [[quota, parseInstallField(field, limit, fieldNames[field])] as const];
  });
  return {
    beside: given.beside,
    namespace: parseInstallField("namespace", namespace, fieldNames.namespace),
    image: parseInstallField("image", image, fieldNames.image),
    replicas: parseInstallField("replicas", replicas, fieldNames.replicas),
    clusterRanges: clusterRanges.map((range) => parseInstallField("clusterRanges", range, fieldNames.clusterRanges)),
    ...(metricsNamespace !== undefined && {
      metricsNamespace: parseInstallField("metricsNamespace", metricsNamespace, fieldNames.metricsNamespace),
    }),
    ...(quotas.length > 0 && { namespaceQuota: Object.fromEntries(quotas) }),
    ...(namespaceSelector && {
      namespaceSelector: {
        text: parseInstallField("namespaceSelector", namespaceSelector.text, fieldNames.namespaceSelector),
        requirements: parseLabelSelector(namespaceSelector.text, fieldNames.namespaceSelector),
      },
    }),
  };
}

/** The quotas of namespaces that apply beside other controllers, which store the checkpoints. */
export const besideQuotas = ["builds", "fetches"] as const;

/** The manifests that must outlive the controllers: of the CRDs, only Ramet's own. */
export function besideLastingManifests(options: Pick<BesideInstallOptions, "namespace">): Manifest[] {
  return lastingManifests(options, [rametGroup]);
}

/** The controllers and their permissions. Templates of sandboxes are subject to the policies of their own controllers. */
export function besideServerManifests(options: BesideInstallOptions<unknown, unknown>): Manifest[] {
  const { namespace, annotations } = options;
  const at = { name, namespace };
  return [
    { apiVersion: "v1", kind: "ServiceAccount", metadata: at },
    ...roles(at, rightsBeside, annotations),
    deployment(options),
    disruptionBudget(at, labels),
    metricsService(at, labels),
    networkPolicy(options),
    ...recipePolicies(options),
    ...modeManifests(options.beside),
  ];
}

/** Tells the command line of every user that other controllers own the sandboxes, so that it creates clones as these expect. */
function modeManifests(beside: unknown): Manifest[] {
  const metadata = { name: controllersMode.configMap, namespace: systemNamespace };
  const apiVersion = "rbac.authorization.k8s.io/v1";
  const apiGroup = "rbac.authorization.k8s.io";
  const rule = { apiGroups: [""], resources: ["configmaps"], resourceNames: [metadata.name], verbs: ["get"] };
  return [
    { apiVersion: "v1", kind: "ConfigMap", metadata, data: { [controllersMode.beside]: beside } },
    { apiVersion, kind: "Role", metadata, rules: [rule] },
    {
      apiVersion,
      kind: "RoleBinding",
      metadata,
      roleRef: { apiGroup, kind: "Role", name: metadata.name },
      subjects: [{ apiGroup, kind: "Group", name: "system:authenticated" }],
    },
  ];
}

function deployment(options: BesideInstallOptions<unknown, unknown>): Manifest {
  const { namespace, annotations, replicas } = options;
  return {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: { name, namespace, labels, ...(annotations !== undefined && { annotations }) },
    spec: {
      replicas,
      selector: { matchLabels: labels },
      template: { metadata: { labels }, spec: pod(options) },
    },
  };
}

function pod({
  image,
  beside,
  clusterRanges,
  namespaceQuota,
  namespaceSelector,
}: BesideInstallOptions<unknown, unknown>) {
  return {
    serviceAccountName: name,
    securityContext: {
      runAsNonRoot: true,
      runAsUser: 65532,
      fsGroup: 65532,
      seccompProfile: { type: "RuntimeDefault" },
    },
    topologySpreadConstraints: spreadOverNodes(labels),
    containers: [
      {
        name: "controller",
        image,
        args: [
          "controller",
          "--beside",
          beside,
          "--leader-elect",
          ...clusterRanges.flatMap((range) => ["--cluster-range", range]),
          ...(namespaceSelector === undefined ? [] : ["--namespace-selector", namespaceSelector.text]),
          ...quotaFlags(namespaceQuota),
          "--metrics-port",
          String(metricsPort),
          "--metrics-address",
          "0.0.0.0",
        ],
        ports: [{ name: "metrics", containerPort: metricsPort }],
        livenessProbe: { httpGet: { path: "/livez", port: "metrics" }, timeoutSeconds: 5 },
        readinessProbe: { httpGet: { path: "/healthz", port: "metrics" } },
        resources: serverResources,
        securityContext: restrictedSecurityContext,
        volumeMounts: [{ name: "tmp", mountPath: "/tmp" }],
      },
    ],
    // Recipe steps fetch up to eight files of up to 1 GiB into it; the root file system is read-only.
    volumes: [{ name: "tmp", emptyDir: { sizeLimit: "9Gi" } }],
  };
}
