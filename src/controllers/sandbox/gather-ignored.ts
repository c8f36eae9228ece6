import { templateRevision } from "../../api/pod/restore-spec.ts";
import { type FoundField, findIgnored, findIgnoredInTemplate, ofTemplate } from "../../api/fields/find-ignored.ts";
import { requestFields, staleTemplate } from "../../api/fields/ignored-fields.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { ignoredRequestFields } from "../../api/names/init-request.ts";
import { annotations, labels } from "../../api/names/labels.ts";
import type { PodTemplateSpec } from "../../api/schema/pod-template.ts";
import type { Pod } from "../../api/schema/pod.ts";
import { hasExited } from "../../api/state/sandbox.ts";
import { defined } from "../../base/defined.ts";
import type { SandboxDependencies } from "./dependencies.ts";
import type { SandboxState } from "./state.ts";

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
function changedTemplate(sandbox: Sandbox, { template, pod }: Pick<SandboxState, "template" | "pod">): FoundField[] {
  // A sandbox that has ended does not get another Pod.
  if ("problem" in template || pod === undefined || hasExited(sandbox)) return [];
  if (pod.metadata.deletionTimestamp !== undefined) return [];
  const created = pod.metadata.labels?.[labels.podTemplateHash];
  if (created === undefined || isRevision(created, template.template, pod)) return [];
  const { spec } = sandbox;
  const field = { path: "spec.template", ...staleTemplate };
  return [spec.templateRef === undefined ? field : ofTemplate(spec.templateRef.name, field)];
}

/** Whether a template has a revision, apart from egress rules, which also change in running sandboxes. */
function isRevision(revision: string, template: PodTemplateSpec, pod: Pod): boolean {
  if (templateRevision(template) === revision) return true;
  const { metadata: { labels: given, annotations: notes, ...others } = {}, ...rest } = template;
  const ownLabels = withEgressOf(given, pod.metadata.labels);
  const ownNotes = withEgressOf(notes, pod.metadata.annotations);
  // The hash distinguishes an empty map from none, and the Pod does not.
  return emptyOrNone(ownLabels).some((labels) =>
    emptyOrNone(ownNotes).some((annotations) => {
      const metadata = { ...others, ...defined({ labels, annotations }) };
      return emptyOrNone(metadata).some(
        (all) => templateRevision({ ...rest, ...defined({ metadata: all }) }) === revision,
      );
    }),
  );
}

type Strings = Record<string, string>;

function withEgressOf(template: Strings = {}, pod: Strings = {}): Strings {
  const others = Object.entries(template).filter(([key]) => !egressKeys.includes(key));
  return Object.fromEntries([...others, ...Object.entries(pod).filter(([key]) => egressKeys.includes(key))]);
}

const egressKeys: readonly string[] = [annotations.egress, labels.allowInternetAccess];

function emptyOrNone<T extends object>(value: T): (T | undefined)[] {
  return Object.keys(value).length === 0 ? [value, undefined] : [value];
}
