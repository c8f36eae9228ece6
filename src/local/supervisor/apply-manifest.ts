import type { Manifest } from "../../install/manifest.ts";
import type { KubeClient } from "../../kube/kube-client.ts";
import type { ResourceRef } from "../../kube/resource-ref.ts";

/** Applies an object of the cluster's own. */
export async function applyManifest(client: KubeClient, manifest: Manifest, signal?: AbortSignal): Promise<void> {
  const [version = "", group = ""] = manifest.apiVersion.split("/").reverse();
  const { kind, metadata } = manifest;
  const plural = `${kind.toLowerCase()}s`.replace(/ys$/, "ies").replace(/sss$/, "sses");
  const resource: ResourceRef = { group, version, plural, kind, namespaced: metadata.namespace !== undefined };
  await client.resource(resource).apply(manifest, { fieldManager: "ramet-local", force: true, signal });
}
