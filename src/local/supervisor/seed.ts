import { apiVersion, group, version } from "../../api/schema/kind.ts";
import { sandboxTemplateKind } from "../../api/kinds/sandbox-template.ts";
import { clusterTemplatePrefix, systemNamespace } from "../../api/names/system-names.ts";
import { installCrds } from "../../controllers/install-crds.ts";
import type { KubeClient } from "../../kube/kube-client.ts";
import type { KubeManifest } from "../../kube/object.ts";
import { coreResources } from "../../kube/resource-ref.ts";

/** Makes what a cluster must have before anybody uses it: the kinds, Ramet's namespace, and a template to begin with. */
export async function seedCluster(client: KubeClient, signal: AbortSignal): Promise<void> {
  await Promise.all([installCrds(client, signal), makeNamespace(client, signal)]);
  const { plural, kind } = sandboxTemplateKind;
  const templates = client.resource({ group, version, plural, kind, namespaced: true });
  const at = { namespace: "default", name: `${clusterTemplatePrefix}python` };
  // What somebody has made of it stays.
  if ((await templates.find(at, { signal })) === undefined) await templates.create(pythonTemplate, { signal });
}

async function makeNamespace(client: KubeClient, signal: AbortSignal): Promise<void> {
  const manifest = { apiVersion: "v1", kind: "Namespace", metadata: { name: systemNamespace } };
  const applied = { fieldManager: "ramet-local", force: true, signal };
  await client.resource(coreResources.namespaces).apply(manifest, applied);
}

const pythonTemplate: KubeManifest = {
  apiVersion,
  kind: "SandboxTemplate",
  metadata: { namespace: "default", name: `${clusterTemplatePrefix}python` },
  spec: {
    template: {
      spec: { containers: [{ name: "sandbox", image: "python", command: ["sleep", "infinity"] }] },
    },
  },
};
