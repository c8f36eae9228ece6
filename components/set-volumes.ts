import { all, type Input, output, type Output } from "@pulumi/pulumi";
import { missingVolumes, volumesOfCheckpoint, volumesOfTemplate } from "../provider/handlers/missing-volumes.ts";
import type { SandboxTemplateSpec } from "../src/api/kinds/sandbox-template.ts";
import { RametError } from "../src/base/errors.ts";
import { NamedSnapshot } from "./named-snapshot.ts";
import { programEnvironment } from "./placement.ts";
import { runError } from "./run-error.ts";

export interface RestoredVolumes {
  /** The name of the set's resource. */
  set: string;
  namespace: Input<string>;
  from: NamedSnapshot | Input<string>;
  volumesOnRestore: Input<"Empty" | "Shared"> | undefined;
}

/**
 * The reference that each sandbox of a set restores from.
 * @returns an output that fails with a RunError, also in a preview, if the source has PersistentVolumeClaims and the set does not
 *   say which volumes its sandboxes get: the controllers would refuse each of them
 */
export function restoredReference({ set, namespace, from, volumesOnRestore }: RestoredVolumes): Output<string> {
  const reference = output(from instanceof NamedSnapshot ? from.name : from);
  const source = output(from instanceof NamedSnapshot ? from.source : undefined);
  return all([reference, namespace, source, volumesOnRestore]).apply(async ([known, at, declared, choice]) => {
    if (choice !== undefined) return known;
    const template = declared?.["template"] as SandboxTemplateSpec | undefined;
    const volumes =
      template === undefined
        ? await volumesOfCheckpoint(programEnvironment(), { namespace: at, from: known })
        : volumesOfTemplate(template);
    const [failure] = missingVolumes(volumes, {});
    if (failure === undefined) return known;
    throw runError(new RametError("VolumesNotCaptured", `The set ${set}: ${failure.property} ${failure.reason}`));
  });
}
