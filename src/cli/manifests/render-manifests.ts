import { Document, isNode } from "yaml";
import { controllerName, gatewayName } from "../../api/names/system-names.ts";
import { gatewayClusterRights, gatewaySystemRights } from "../../install/gateway-rights.ts";
import type { Manifest } from "../../install/manifest.ts";
import { clusterRights, systemRights, type Right } from "../../install/rights.ts";

/** A file that `kubectl apply -k` reads. */
export interface ManifestFile {
  name: string;
  text: string;
}

/** Manifests as a stream of YAML documents; the rules of roles have their reasons above them. */
export function renderManifests(manifests: readonly Manifest[]): string {
  return manifests.map(renderManifest).join("---\n");
}

/** One file for each kind of object, and last the kustomization that names them. */
export function manifestFiles(manifests: readonly Manifest[]): ManifestFile[] {
  const byKind = Map.groupBy(manifests, ({ kind }) => `${kebab(kind)}.yaml`);
  const kustomization = {
    apiVersion: "kustomize.config.k8s.io/v1beta1",
    kind: "Kustomization",
    resources: [...byKind.keys()],
  };
  return [
    ...[...byKind].map(([name, ofKind]) => ({ name, text: renderManifests(ofKind) })),
    { name: "kustomization.yaml", text: renderDocument(new Document(kustomization)) },
  ];
}

function renderManifest(manifest: Manifest): string {
  const document = new Document(manifest, { aliasDuplicateObjects: false });
  reasonsOf(manifest).forEach((why, at) => {
    const rule = document.getIn(["rules", at]);
    if (isNode(rule)) rule.commentBefore = ` ${why}`;
  });
  return renderDocument(document);
}

/** As YAML 1.1 too, which kubectl reads: `yes` is quoted. Lines are not folded. */
function renderDocument(document: Document): string {
  document.setSchema("1.1");
  document.directives = undefined;
  return document.toString({ lineWidth: 0 });
}

function reasonsOf({ kind, metadata: { name } }: Manifest): string[] {
  return (rights[`${kind} ${name}`] ?? []).map(({ why }) => why);
}

const rights: Readonly<Record<string, readonly Right[]>> = {
  [`ClusterRole ${controllerName}`]: clusterRights,
  [`Role ${controllerName}`]: systemRights,
  [`ClusterRole ${gatewayName}`]: gatewayClusterRights,
  [`Role ${gatewayName}`]: gatewaySystemRights,
};

function kebab(kind: string): string {
  return kind.replaceAll(/(?<=[a-z])(?=[A-Z])/g, "-").toLowerCase();
}
