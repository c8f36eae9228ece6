import * as z from "zod";
import { renderCrds } from "../api/kinds/crd.ts";
import { covers } from "../kube/apply.ts";
import { ownerAnnotation } from "../api/names/labels.ts";
import { defaultClassAnnotation } from "../kube/volumes/snapshots.ts";

/** The CRDs of external-snapshotter, and those of sandboxes and their checkpoints. */
export const crdNames = {
  core: ["volumesnapshotclasses", "volumesnapshotcontents", "volumesnapshots"].map(
    (plural) => `${plural}.snapshot.storage.k8s.io`,
  ),
  group: ["volumegroupsnapshotclasses", "volumegroupsnapshotcontents", "volumegroupsnapshots"].map(
    (plural) => `${plural}.groupsnapshot.storage.k8s.io`,
  ),
  sandboxes: ["sandboxes.agents.kruise.io", "checkpoints.agents.kruise.io"],
};

/** The metadata with which tools mark their objects. */
const ManagedMetadata = z.looseObject({
  name: z.string(),
  namespace: z.string().optional(),
  labels: z.record(z.string(), z.string()).optional(),
  annotations: z.record(z.string(), z.string()).optional(),
  managedFields: z
    .array(z.looseObject({ manager: z.string().optional(), subresource: z.string().optional() }))
    .optional(),
});
type ManagedMetadata = z.infer<typeof ManagedMetadata>;

/** Describes the manager of an object: from the marks of known tools, else from the field managers. */
export function managerOf({ labels = {}, annotations = {}, managedFields = [] }: ManagedMetadata): string {
  const marked = byMark({ ...labels, ...annotations });
  if (marked !== undefined) return marked;
  const writer = managedFields.find(({ manager, subresource }) => subresource === undefined && manager !== undefined);
  return writer?.manager === undefined ? "an unknown manager" : byFieldManager(writer.manager);
}

type Marks = Readonly<Record<string, string>>;

function byMark(marked: Marks): string | undefined {
  return marks.flatMap(([key, describe]) => (marked[key] === undefined ? [] : describe(marked[key], marked)))[0];
}

/** The labels and annotations of known tools. */
const marks: readonly [key: string, describe: (value: string, all: Marks) => string][] = [
  [ownerAnnotation, (owner) => `the Pulumi resource ${owner}`],
  ["argocd.argoproj.io/tracking-id", (id) => `Argo CD (${id.split(":")[0] ?? id})`],
  ["kustomize.toolkit.fluxcd.io/name", (name) => `Flux (Kustomization ${name})`],
  ["helm.toolkit.fluxcd.io/name", (name) => `Flux (HelmRelease ${name})`],
  [
    "meta.helm.sh/release-name",
    (name, all) => `the Helm release ${all["meta.helm.sh/release-namespace"] ?? "default"}/${name}`,
  ],
  ["olm.managed", () => "the Operator Lifecycle Manager"],
  ["addonmanager.kubernetes.io/mode", () => "the cluster's add-on manager"],
];

function byFieldManager(manager: string): string {
  if (manager === "eks") return "an EKS add-on";
  if (manager.startsWith("kubectl")) return "kubectl";
  return manager.startsWith("pulumi-kubernetes") ? "another Pulumi program" : manager;
}

/** Ramet's CRDs have the fields of OpenKruise Agents and more. */
function isRamets(name: string, spec: object): boolean {
  const own = renderCrds().find((crd) => crd.metadata.name === name);
  return own !== undefined && covers(spec, own.spec);
}

/** Names of the configuration and its service in upstream's manifests and charts. */
const upstreamsWebhook = /^validation-webhook\.snapshot\.storage\.k8s\.io$|snapshot-validation-(service|webhook)/;

export function managementOf(metadata: ManagedMetadata): { manager: string; declaredBy: string | undefined } {
  return { manager: managerOf(metadata), declaredBy: metadata.annotations?.[ownerAnnotation] };
}

const Strings = z
  .array(z.string())
  .nullish()
  .transform((list) => list ?? []);
export const Named = z.looseObject({ metadata: ManagedMetadata });

/** A VolumeSnapshotClass. */
export const ObservedClass = Named.extend({ driver: z.string(), deletionPolicy: z.string() }).transform(
  ({ metadata, driver, deletionPolicy }) => ({
    name: metadata.name,
    driver,
    deletionPolicy,
    isDefault: metadata.annotations?.[defaultClassAnnotation] === "true",
    ...managementOf(metadata),
  }),
);
export type ObservedClass = z.infer<typeof ObservedClass>;

const Webhook = z.looseObject({
  rules: z.array(z.looseObject({ apiGroups: Strings })).default([]),
  clientConfig: z.looseObject({ service: z.looseObject({ name: z.string() }).optional() }).optional(),
});

/** A ValidatingWebhookConfiguration; undefined if it validates no snapshots. */
export const WebhookOfSnapshots = Named.extend({ webhooks: z.array(Webhook).default([]) }).transform(
  ({ metadata: { name }, webhooks }): ObservedWebhook | undefined => {
    const matching = webhooks.filter(({ rules }) =>
      rules.some(({ apiGroups }) => apiGroups.some((group) => group.endsWith("snapshot.storage.k8s.io"))),
    );
    if (matching.length === 0) return undefined;
    const names = [name, ...matching.map(({ clientConfig }) => clientConfig?.service?.name ?? "")];
    return { name, isUpstreams: names.some((each) => upstreamsWebhook.test(each)) };
  },
);

/** A ValidatingWebhookConfiguration that validates snapshots. */
export interface ObservedWebhook {
  name: string;
  /** Whether it belongs to external-snapshotter, which has no webhook since v8.2. */
  isUpstreams: boolean;
}

const Service = z.looseObject({ namespace: z.string(), name: z.string() });
const Conversion = z.looseObject({
  strategy: z.string(),
  webhook: z.looseObject({ clientConfig: z.looseObject({ service: Service.nullish() }).nullish() }).nullish(),
});

/** A CRD of external-snapshotter or of sandboxes. */
export const ObservedCrd = Named.extend({
  spec: z.looseObject({
    versions: z.array(z.looseObject({ name: z.string(), served: z.boolean() })),
    conversion: Conversion.optional(),
  }),
  status: z.looseObject({ storedVersions: Strings }).optional(),
}).transform(({ metadata, spec, status }) => ({
  name: metadata.name,
  served: spec.versions.filter(({ served }) => served).map(({ name }) => name),
  /** The versions in which objects may still be stored. */
  stored: status?.storedVersions ?? [],
  hasConversionWebhook: spec.conversion?.strategy === "Webhook",
  /** The service of its conversion webhook; undefined without one. */
  conversionService: spec.conversion?.webhook?.clientConfig?.service ?? undefined,
  /** Whether this version of Ramet installs the same CRD. */
  isRamets: isRamets(metadata.name, spec),
  /** Whether the schema has validation rules, as the CRDs of snapshots and contents have since v8. */
  hasRules: JSON.stringify(spec.versions).includes('"x-kubernetes-validations"'),
  ...managementOf(metadata),
}));
export type ObservedCrd = z.infer<typeof ObservedCrd>;

const ControllerContainer = z.looseObject({ image: z.string().default(""), command: Strings, args: Strings });

/** A Deployment of the snapshot-controller. */
export const ObservedController = Named.extend({
  spec: z.looseObject({
    selector: z.looseObject({ matchLabels: z.record(z.string(), z.string()).default({}) }),
    template: z.looseObject({ spec: z.looseObject({ containers: z.array(ControllerContainer) }) }),
  }),
  status: z.looseObject({ availableReplicas: z.number().optional() }).optional(),
}).transform(({ metadata, spec, status }) => {
  const { containers } = spec.template.spec;
  const main = containers.find(({ image }) => image.includes("snapshot-controller")) ?? containers[0];
  return {
    namespace: metadata.namespace ?? "",
    name: metadata.name,
    image: main?.image ?? "",
    arguments: [...(main?.command ?? []), ...(main?.args ?? [])],
    selector: spec.selector.matchLabels,
    isAvailable: (status?.availableReplicas ?? 0) > 0,
    ...managementOf(metadata),
  };
});
export type ObservedController = z.infer<typeof ObservedController>;
