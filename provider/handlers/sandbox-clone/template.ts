import { parsePodTemplate, type PodTemplateSpec } from "../../../src/api/schema/pod-template.ts";
import type { Sandbox, SandboxManifest } from "../../../src/api/kinds/sandbox.ts";
import type { KubeClient } from "../../../src/kube/kube-client.ts";
import type { SandboxCloneInputs } from "./inputs.ts";
import { keptTemplate } from "./kept-template.ts";

/**
 * What a clone says of its Pod template: its checkpoint's, with its ports. Without ports it says nothing, and the controller takes
 * that template itself.
 * @param living the clone, where it is there: it keeps what it was made with, as a resume would compare it with the checkpoint
 * @throws RametError `NotFound` or `CheckpointNotReady` when no template can be found to which the ports could be added
 */
export async function templateOf(
  client: KubeClient,
  { namespace, from, template, ports = [] }: SandboxCloneInputs,
  living: Sandbox | undefined,
): Promise<Pick<SandboxManifest["spec"], "template" | "volumeClaimTemplates">> {
  if (ports.length === 0) return {};
  const spec = living?.spec ?? template ?? (await keptTemplate(client, namespace, from));
  const { volumeClaimTemplates } = spec as Sandbox["spec"];
  return {
    template: withPorts(parsePodTemplate(spec.template), ports),
    ...(volumeClaimTemplates !== undefined && { volumeClaimTemplates }),
  };
}

/** Only declared ports are reachable at the Pod's address; a restore does not compare them. */
function withPorts(template: PodTemplateSpec, ports: readonly number[]): PodTemplateSpec {
  const [main, ...others] = template.spec.containers;
  if (main === undefined) return template;
  const known = main.ports ?? [];
  const added = ports.filter((port) => !known.some(({ containerPort }) => containerPort === port));
  const all = [...known, ...added.map((containerPort) => ({ containerPort }))];
  return { ...template, spec: { ...template.spec, containers: [{ ...main, ports: all }, ...others] } };
}
