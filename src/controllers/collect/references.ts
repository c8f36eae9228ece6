import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import { annotations } from "../../api/names/labels.ts";
import type { NamedSnapshot } from "../../api/kinds/named-snapshot.ts";
import type { SandboxTemplate } from "../../api/kinds/sandbox-template.ts";
import { originsNamed, originsNamedByTemplate } from "../common/origins-named.ts";
import type { CollectionState } from "./garbage.ts";

/** What somebody refers to and is therefore left alone, whatever else speaks for its removal. */
export interface References {
  hasCheckpoint: (checkpoint: Checkpoint) => boolean;
  hasTemplate: (template: SandboxTemplate) => boolean;
}

/**
 * Whoever names a checkpoint or a template, alive or ended: an ended sandbox may still be looked into. A named snapshot whose
 * recipe its controller has not read yet may want any captured step of its namespace.
 */
export function referencesOf({ sandboxes, sets, templates, snapshots }: CollectionState): References {
  const texts = new Set([
    ...sandboxes.flatMap((one) => inNamespace(one, originsNamed(one))),
    ...[...sets, ...templates].flatMap((one) => inNamespace(one, originsNamedByTemplate(one.spec.template))),
    ...snapshots.flatMap((one) => inNamespace(one, ofSnapshot(one))),
  ]);
  const named = new Set([
    ...[...sandboxes, ...sets].flatMap((one) => inNamespace(one, [one.spec.templateRef?.name])),
    ...snapshots.flatMap((one) => inNamespace(one, [one.spec.from.template?.name])),
  ]);
  const steps = new Set(
    snapshots.flatMap((one) =>
      inNamespace(
        one,
        (one.status?.steps ?? []).map(({ digest }) => digest),
      ),
    ),
  );
  const unread = new Set(snapshots.filter(isUnread).map(({ metadata }) => metadata.namespace));
  return {
    hasCheckpoint: ({ metadata, status }) => {
      const { namespace, name } = metadata;
      const step = metadata.annotations?.[annotations.stepDigest];
      const byText = [name, status?.checkpointId].some((text) => texts.has(`${namespace}/${text}`));
      return byText || (step !== undefined && (unread.has(namespace) || steps.has(`${namespace}/${step}`)));
    },
    hasTemplate: ({ metadata: { namespace, name } }) => named.has(`${namespace}/${name}`),
  };
}

function isUnread({ metadata, status }: NamedSnapshot): boolean {
  return status?.observedGeneration !== metadata.generation;
}

function ofSnapshot({ spec, status }: NamedSnapshot): (string | undefined)[] {
  const versions = status?.versions ?? [];
  return [
    spec.from.checkpoint?.id,
    status?.checkpointId,
    ...versions.flatMap(({ checkpointId, checkpointName }) => [checkpointId, checkpointName]),
  ];
}

function inNamespace(
  { metadata }: { metadata: { namespace: string } },
  texts: readonly (string | undefined)[],
): string[] {
  return texts.filter((text) => text !== undefined && text !== "").map((text) => `${metadata.namespace}/${text}`);
}
