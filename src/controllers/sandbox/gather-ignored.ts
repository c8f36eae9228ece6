import { templateRevision } from "../../api/cell/template-digest.ts";
import { type FoundField, findIgnored, findIgnoredInTemplate, ofTemplate } from "../../api/fields/find-ignored.ts";
import { requestFields, staleTemplate } from "../../api/fields/ignored-fields.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { ignoredRequestFields } from "../../api/names/init-request.ts";
import { annotations, labels } from "../../api/names/labels.ts";
import type { Pod } from "../../api/schema/pod.ts";
import type { SandboxDependencies, SandboxState } from "./state.ts";

/** The fields of a sandbox, and of the SandboxTemplate that it names, without effect. */
export function gatherIgnored(
  sandbox: Sandbox,
  found: Pick<SandboxState, "template" | "pod">,
  { cache, seal }: Pick<SandboxDependencies, "cache" | "seal">,
): FoundField[] {
  const { metadata, spec } = sandbox;
  const named = spec.templateRef && cache.template(`${metadata.namespace}/${spec.templateRef.name}`);
  const request = `metadata.annotations[${annotations.initRuntimeRequest}]`;
  return [
    ...changedTemplate(sandbox, found),
    ...findIgnored("Sandbox", sandbox),
    ...(named ? findIgnoredInTemplate({ name: named.metadata.name, spec: named.spec }, spec) : []),
    ...ignoredRequestFields(sandbox, seal).map((field) => ({ path: `${request}.${field}`, ...requestFields })),
  ];
}

/** The Pod has the revision of the template from which it was created. */
function changedTemplate(
  { spec, status }: Sandbox,
  { template, pod }: Pick<SandboxState, "template" | "pod">,
): FoundField[] {
  if ("problem" in template || pod === undefined || !isCurrent(pod) || !mayContinue(status?.phase)) return [];
  const created = pod.metadata.labels?.[labels.podTemplateHash];
  if (created === undefined || created === templateRevision(template.template)) return [];
  const field = { path: "spec.template", ...staleTemplate };
  return [spec.templateRef === undefined ? field : ofTemplate(spec.templateRef.name, field)];
}

function isCurrent({ metadata }: Pod): boolean {
  return metadata.deletionTimestamp === undefined;
}

/** A sandbox that has ended gets no other Pod by itself. */
function mayContinue(phase: string | undefined): boolean {
  return phase !== "Succeeded" && phase !== "Failed";
}
