import { SandboxTemplateSpec } from "../../../src/api/kinds/sandbox-template.ts";
import { snapshotDigest, type SnapshotDigest } from "../../../src/api/snapshot/snapshot-digest.ts";
import { secretIdentity, type CopiedContent, type ResolvedSource } from "../../../src/api/snapshot/snapshot-inputs.ts";
import type { RecipeStep } from "../../../src/api/recipe/recipe.ts";
import { NamedSnapshotInputs } from "./inputs.ts";
import { contentDigest, recipeSecretName } from "./recipe-secret.ts";
import type { Values } from "../handler.ts";
import { hasUnknown } from "../validate.ts";

/** The digest of a named snapshot, by the function that the controller uses; undefined where only the cluster knows all inputs. */
export function digestOfInputs(values: Values): SnapshotDigest | undefined {
  const { data: inputs } = NamedSnapshotInputs.safeParse(values);
  if (inputs?.source === undefined || hasUnknown([inputs.source, inputs.recipe, inputs.secrets])) return undefined;
  const copied = copiedContents(inputs);
  if (copied === undefined) return undefined;
  const { recipe, contents } = inputs;
  return snapshotDigest({ from: resolved(inputs.source), recipe, copied, contents });
}

/** As the API server has it, with what it fills in. */
function resolved(source: NonNullable<NamedSnapshotInputs["source"]>): ResolvedSource {
  return "template" in source ? { template: SandboxTemplateSpec.parse(source.template) } : source;
}

/** What stands for the files that steps take from other objects; undefined when one of them is not this program's. */
function copiedContents(inputs: NamedSnapshotInputs): Map<number, CopiedContent> | undefined {
  const { recipe, name, secrets, digestKey } = inputs;
  const declared =
    secrets !== undefined && digestKey !== undefined
      ? { digest: contentDigest(secrets, digestKey), secrets }
      : undefined;
  const isOurs = ({ copy }: RecipeStep): boolean =>
    copy?.secretKeyRef?.name === recipeSecretName(name) &&
    Object.hasOwn(declared?.secrets ?? {}, copy.secretKeyRef.key);
  const copied = new Map<number, CopiedContent>();
  for (const [index, step] of recipe.entries()) {
    if (step.copy?.configMapKeyRef === undefined && step.copy?.secretKeyRef === undefined) continue;
    if (declared === undefined || !isOurs(step)) return undefined;
    const annotations = { "ramet.dev/content-digest": declared.digest };
    copied.set(index, { identity: secretIdentity({ annotations, uid: "", resourceVersion: "" }) });
  }
  return copied;
}
