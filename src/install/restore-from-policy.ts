import { restoreFromAnnotations } from "../api/names/labels.ts";
import { group } from "../api/schema/kind.ts";
import { admissionPolicy, type PolicyScope, selectedNamespaces } from "./admission-policy.ts";
import type { Manifest } from "./manifest.ts";

const [own, theirs] = restoreFromAnnotations;

/**
 * Other controllers do not know Ramet's annotation for clones, and would start an ordinary sandbox without an error. The sandboxes
 * of a set have an owner, and the checkpoint id too if the set follows a named snapshot.
 */
export function restoreFromPolicy(scope: PolicyScope): Manifest[] {
  const asks = `(${annotation("object", own)} || ${annotation("object.spec.?template", own)})`;
  return admissionPolicy({
    name: "ramet-restore-from",
    selectors: selectedNamespaces(scope),
    apiGroup: group,
    operations: ["CREATE"],
    resources: ["sandboxes"],
    conditions: [
      { name: "of-a-user", expression: "object.metadata.?ownerReferences.orValue([]).size() == 0" },
      { name: "asks-for-a-clone", expression: asks },
    ],
    validations: [
      {
        expression: annotation("object", theirs),
        message: `The controllers of this cluster ignore the annotation ${own}: create the clone with \`ramet sandbox create --from\`, or use ${theirs} with a checkpoint id`,
      },
    ],
  });
}

function annotation(object: string, key: string): string {
  return `${object}.?metadata.?annotations[?"${key}"].hasValue()`;
}
