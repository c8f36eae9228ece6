import { expect, it } from "vitest";
import { managerOf } from "./snapshot-objects.ts";

const name = "volumesnapshots.snapshot.storage.k8s.io";

it.each([
  ["the Helm release default/csi", { annotations: { "meta.helm.sh/release-name": "csi" } }],
  ["Argo CD (storage)", { annotations: { "argocd.argoproj.io/tracking-id": "storage:apiextensions.k8s.io/…" } }],
  ["Flux (Kustomization infra)", { labels: { "kustomize.toolkit.fluxcd.io/name": "infra" } }],
  ["the cluster's add-on manager", { labels: { "addonmanager.kubernetes.io/mode": "Reconcile" } }],
  ["the Pulumi resource o/p/s/stack", { annotations: { "ramet.dev/pulumi-resource": "o/p/s/stack" } }],
  ["an EKS add-on", { managedFields: [{ manager: "kube-apiserver", subresource: "status" }, { manager: "eks" }] }],
  ["kubectl", { managedFields: [{ manager: "kubectl-client-side-apply" }] }],
  ["another Pulumi program", { managedFields: [{ manager: "pulumi-kubernetes-1a2b" }] }],
  ["snapshot-operator", { managedFields: [{ manager: "snapshot-operator" }] }],
  ["an unknown manager", {}],
])("detects %s", (manager, metadata) => {
  expect(managerOf({ name, ...metadata })).toBe(manager);
});
