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

/** A CRD of external-snapshotter or of sandboxes. */
export interface ObservedCrd {
  name: string;
  /** The served versions. */
  served: string[];
  /** The versions in which objects may still be stored. */
  stored: string[];
  hasConversionWebhook: boolean;
  /** The service of its conversion webhook; undefined without one. */
  conversionService: { namespace: string; name: string } | undefined;
  /** Whether the schema has validation rules, as the CRDs of snapshots and contents have since v8. */
  hasRules: boolean;
  /** Whether this version of Ramet installs the same CRD. */
  isRamets: boolean;
  manager: string;
  declaredBy: string | undefined;
}

/** A Deployment of the snapshot-controller. */
export interface ObservedController {
  namespace: string;
  name: string;
  image: string;
  arguments: string[];
  selector: Record<string, string>;
  isAvailable: boolean;
  manager: string;
  declaredBy: string | undefined;
}

export interface ObservedWebhook {
  name: string;
  /** Whether it belongs to external-snapshotter, which has no webhook since v8.2. */
  isUpstreams: boolean;
}

export interface ObservedClass {
  name: string;
  driver: string;
  deletionPolicy: string;
  isDefault: boolean;
  manager: string;
  declaredBy: string | undefined;
}

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
  const marked = byMark(labels, annotations);
  if (marked !== undefined) return marked;
  const writer = managedFields.find(({ manager, subresource }) => subresource === undefined && manager !== undefined);
  return writer?.manager === undefined ? "an unknown manager" : byFieldManager(writer.manager);
}

function byMark(labels: Record<string, string>, annotations: Record<string, string>): string | undefined {
  const found = marks.flatMap(({ from, key, describe }) => {
    const value = (from === "label" ? labels : annotations)[key];
    return value === undefined ? [] : [describe(value, annotations)];
  });
  return found[0];
}

interface Mark {
  from: "label" | "annotation";
  key: string;
  describe: (value: string, annotations: Record<string, string>) => string;
}

const marks: readonly Mark[] = [
  { from: "annotation", key: ownerAnnotation, describe: (owner) => `the Pulumi resource ${owner}` },
  {
    from: "annotation",
    key: "argocd.argoproj.io/tracking-id",
    describe: (id) => `Argo CD (${id.split(":")[0] ?? id})`,
  },
  { from: "label", key: "kustomize.toolkit.fluxcd.io/name", describe: (name) => `Flux (Kustomization ${name})` },
  { from: "label", key: "helm.toolkit.fluxcd.io/name", describe: (name) => `Flux (HelmRelease ${name})` },
  {
    from: "annotation",
    key: "meta.helm.sh/release-name",
    describe: (name, all) => `the Helm release ${all["meta.helm.sh/release-namespace"] ?? "default"}/${name}`,
  },
  { from: "label", key: "olm.managed", describe: () => "the Operator Lifecycle Manager" },
  { from: "label", key: "addonmanager.kubernetes.io/mode", describe: () => "the cluster's add-on manager" },
];

function byFieldManager(manager: string): string {
  if (manager === "eks") return "an EKS add-on";
  if (manager.startsWith("kubectl")) return "kubectl";
  return manager.startsWith("pulumi-kubernetes") ? "another Pulumi program" : manager;
}

export function observeCrd({ metadata, spec, status }: Crd): ObservedCrd {
  return {
    name: metadata.name,
    served: spec.versions.filter(({ served }) => served).map(({ name }) => name),
    stored: status?.storedVersions ?? [],
    hasConversionWebhook: spec.conversion?.strategy === "Webhook",
    conversionService: spec.conversion?.webhook?.clientConfig?.service ?? undefined,
    isRamets: isRamets({ metadata, spec }),
    hasRules: JSON.stringify(spec.versions).includes('"x-kubernetes-validations"'),
    ...managementOf(metadata),
  };
}

/** Ramet's CRDs have the fields of OpenKruise Agents and more. */
function isRamets({ metadata, spec }: Pick<Crd, "metadata" | "spec">): boolean {
  const own = renderCrds().find((crd) => crd.metadata.name === metadata.name);
  return own !== undefined && covers(spec, own.spec);
}

export function observeController({ metadata, spec, status }: Deployment): ObservedController {
  const containers = spec.template.spec.containers;
  const main = containers.find(({ image }) => image.includes("snapshot-controller")) ?? containers[0];
  return {
    namespace: metadata.namespace ?? "",
    name: metadata.name,
    image: main?.image ?? "",
    arguments: [...(main?.command ?? []), ...(main?.args ?? [])],
    selector: spec.selector.matchLabels ?? {},
    isAvailable: (status?.availableReplicas ?? 0) > 0,
    ...managementOf(metadata),
  };
}

export function observeClass({ metadata, driver, deletionPolicy }: SnapshotClass): ObservedClass {
  return {
    name: metadata.name,
    driver,
    deletionPolicy,
    isDefault: metadata.annotations?.[defaultClassAnnotation] === "true",
    ...managementOf(metadata),
  };
}

/** Undefined if it does not validate snapshots. */
export function observeWebhook({ metadata: { name }, webhooks = [] }: Webhooks): ObservedWebhook | undefined {
  const matching = webhooks.filter(({ rules = [] }) =>
    rules.some(({ apiGroups }) => apiGroups.some((group) => group.endsWith("snapshot.storage.k8s.io"))),
  );
  if (matching.length === 0) return undefined;
  const services = matching.map(({ clientConfig }) => clientConfig?.service?.name ?? "");
  return { name, isUpstreams: [name, ...services].some((each) => upstreamsWebhook.test(each)) };
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
export const SnapshotClass = Named.extend({ driver: z.string(), deletionPolicy: z.string() });
type SnapshotClass = z.infer<typeof SnapshotClass>;
export const Webhooks = Named.extend({
  webhooks: z
    .array(
      z.looseObject({
        rules: z.array(z.looseObject({ apiGroups: Strings })).optional(),
        clientConfig: z.looseObject({ service: z.looseObject({ name: z.string() }).optional() }).optional(),
      }),
    )
    .optional(),
});
export type Webhooks = z.infer<typeof Webhooks>;
const Service = z.looseObject({ namespace: z.string(), name: z.string() });
export const Crd = Named.extend({
  spec: z.looseObject({
    versions: z.array(z.looseObject({ name: z.string(), served: z.boolean() })),
    conversion: z
      .looseObject({
        strategy: z.string(),
        webhook: z.looseObject({ clientConfig: z.looseObject({ service: Service.nullish() }).nullish() }).nullish(),
      })
      .optional(),
  }),
  status: z.looseObject({ storedVersions: Strings }).optional(),
});
export type Crd = z.infer<typeof Crd>;
export const Deployment = Named.extend({
  spec: z.looseObject({
    selector: z.looseObject({ matchLabels: z.record(z.string(), z.string()).optional() }),
    template: z.looseObject({
      spec: z.looseObject({
        containers: z.array(z.looseObject({ image: z.string().default(""), command: Strings, args: Strings })),
      }),
    }),
  }),
  status: z.looseObject({ availableReplicas: z.number().optional() }).optional(),
});
export type Deployment = z.infer<typeof Deployment>;
