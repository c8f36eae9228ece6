import { Checkpoint } from "../api/checkpoint.ts";
import { group, version } from "../api/kind.ts";
import { labels } from "../api/labels.ts";
import { Pod } from "../api/pod.ts";
import { Sandbox } from "../api/sandbox.ts";
import { SandboxTemplate } from "../api/sandbox-template.ts";
import { Informer } from "../kube/informer.ts";
import type { KubeClient } from "../kube/kube-client.ts";
import type { Log } from "../kube/log.ts";
import { coreResources, type ResourceRef } from "../kube/resource-ref.ts";

/** The resources of `agents.kruise.io` that these controllers follow. */
export const sandboxResources = {
  sandboxes: ours("sandboxes", "Sandbox"),
  checkpoints: ours("checkpoints", "Checkpoint"),
  templates: ours("sandboxtemplates", "SandboxTemplate"),
} as const;

/** One informer for each resource, shared by all controllers of the process. */
export interface Informers {
  sandboxes: Informer<Sandbox>;
  /** Pods that run a cell, and no others. */
  pods: Informer<Pod>;
  checkpoints: Informer<Checkpoint>;
  templates: Informer<SandboxTemplate>;
}

export function createInformers(client: KubeClient, log: Log): Informers {
  return {
    sandboxes: new Informer({
      resource: client.resource(sandboxResources.sandboxes, (value) => Sandbox.parse(value)),
      log,
    }),
    pods: new Informer({
      resource: client.resource(coreResources.pods, (value) => Pod.parse(value)),
      labelSelector: `${labels.cell}=true`,
      log,
    }),
    checkpoints: new Informer({
      resource: client.resource(sandboxResources.checkpoints, (value) => Checkpoint.parse(value)),
      log,
    }),
    templates: new Informer({
      resource: client.resource(sandboxResources.templates, (value) => SandboxTemplate.parse(value)),
      log,
    }),
  };
}

function ours(plural: string, kind: string): ResourceRef {
  return { group, version, plural, kind, namespaced: true };
}
