import { z } from "zod";
import { ownerAnnotation } from "../owner.ts";

/** The metadata by which tools say that an object is theirs. */
export const ManagedMetadata = z.looseObject({
  name: z.string(),
  namespace: z.string().optional(),
  labels: z.record(z.string(), z.string()).optional(),
  annotations: z.record(z.string(), z.string()).optional(),
  managedFields: z
    .array(z.looseObject({ manager: z.string().optional(), subresource: z.string().optional() }))
    .optional(),
});
export type ManagedMetadata = z.infer<typeof ManagedMetadata>;

/** Who looks after an object, in words: what the tools themselves leave on it, else the field manager that wrote it. */
export function managerOf({ labels = {}, annotations = {}, managedFields = [] }: ManagedMetadata): string {
  const marked = byMark(labels, annotations);
  if (marked !== undefined) return marked;
  const writer = managedFields.find(({ manager, subresource }) => subresource === undefined && manager !== undefined);
  return writer?.manager === undefined ? "somebody who left no name" : byFieldManager(writer.manager);
}

function byMark(labels: Record<string, string>, annotations: Record<string, string>): string | undefined {
  const found = marks.flatMap(({ from, key, says }) => {
    const value = (from === "label" ? labels : annotations)[key];
    return value === undefined ? [] : [says(value, annotations)];
  });
  return found[0];
}

interface Mark {
  from: "label" | "annotation";
  key: string;
  says: (value: string, annotations: Record<string, string>) => string;
}

const marks: readonly Mark[] = [
  { from: "annotation", key: ownerAnnotation, says: (owner) => `the Pulumi resource ${owner}` },
  { from: "annotation", key: "argocd.argoproj.io/tracking-id", says: (id) => `Argo CD (${id.split(":")[0] ?? id})` },
  { from: "label", key: "kustomize.toolkit.fluxcd.io/name", says: (name) => `Flux (Kustomization ${name})` },
  { from: "label", key: "helm.toolkit.fluxcd.io/name", says: (name) => `Flux (HelmRelease ${name})` },
  {
    from: "annotation",
    key: "meta.helm.sh/release-name",
    says: (name, all) => `the Helm release ${all["meta.helm.sh/release-namespace"] ?? "default"}/${name}`,
  },
  { from: "label", key: "olm.managed", says: () => "the Operator Lifecycle Manager" },
  { from: "label", key: "addonmanager.kubernetes.io/mode", says: () => "the cluster's add-on manager" },
];

function byFieldManager(manager: string): string {
  if (manager === "eks") return "an EKS add-on";
  if (manager.startsWith("kubectl")) return "kubectl";
  return manager.startsWith("pulumi-kubernetes") ? "another Pulumi program" : manager;
}
