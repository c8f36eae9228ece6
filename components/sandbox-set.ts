import type { apiextensions } from "@pulumi/kubernetes";
import { ComponentResource, type ComponentResourceOptions, type Input, type Output, all, output } from "@pulumi/pulumi";
import { digestOf } from "../src/api/schema/digest.ts";
import { annotations as annotationKeys, restoreFromAnnotations } from "../src/api/names/labels.ts";
import { sandboxSetKind } from "../src/api/kinds/sandbox-set.ts";
import { deleteInBackground } from "./await.ts";
import { declareKind, type ObjectTransform, awaitReady, waitAnnotations } from "./declare.ts";
import { type DisruptionArgs, disruptionInputs } from "./disruption.ts";
import { NamedSnapshot } from "./named-snapshot.ts";
import { placementBeside, type PlacementArgs, programEnvironment } from "./placement.ts";
import { SandboxTemplate } from "./sandbox-template.ts";
import { missingVolumes, volumesOfCheckpoint, volumesOfTemplate } from "../provider/handlers/missing-volumes.ts";
import type { SandboxTemplateSpec } from "../src/api/kinds/sandbox-template.ts";
import { RametError } from "../src/base/errors.ts";
import { runError } from "./run-error.ts";

export interface SandboxSetArgs extends PlacementArgs, DisruptionArgs {
  /**
   * The source of the sandboxes: a SandboxTemplate, a NamedSnapshot, or a reference to an existing one: `{ template:
   * "python" }`, `"python-data"`, `"python-data@7"`, `"python-data@sha256:…"`, or a checkpoint id. A set follows a
   * NamedSnapshot without a version and rolls when its current version changes.
   */
  from: SandboxTemplate | NamedSnapshot | { template: Input<string> } | Input<string>;
  /** Number of ready, unclaimed sandboxes. */
  replicas: Input<number>;
  /** How many sandboxes may be unavailable while the set rolls: a number, or a percentage like `"20%"`. @default "20%"; 0 for a set of one */
  maxUnavailable?: Input<number | string>;
  /** How many sandboxes may start at the same time: a number or a percentage. @default all */
  maxStarting?: Input<number | string>;
  /**
   * The volumes of each sandbox, if `from` is a snapshot or a checkpoint whose source has PersistentVolumeClaims whose data it
   * lacks: `Empty` for new claims, `Shared` for the claims of the source. Without it, such a set is refused, also in a preview.
   * @default none
   */
  volumesOnRestore?: Input<"Empty" | "Shared">;
  /**
   * How long to wait until all sandboxes are ready, such as `"30 minutes"`. The wait ends earlier if they do not start.
   * @default "10 minutes"
   */
  timeout?: Input<string>;
  /** Changes the declared manifest, for settings that have no argument. */
  transform?: ObjectTransform;
}

/** A pool of ready, unclaimed sandboxes. A claimed sandbox is replaced. */
export class SandboxSet extends ComponentResource {
  declare readonly name: Output<string>;
  declare readonly namespace: Output<string>;
  /** The declared objects. */
  declare readonly nodes: { set: apiextensions.CustomResource };

  constructor(name: string, args: SandboxSetArgs, opts: ComponentResourceOptions = {}) {
    const { from, transform, ...inputs } = args;
    super("ramet:index:SandboxSet", name, inputs, opts);
    const placement = placementBeside(name, args, from);
    const spec = { ...originOf(name, placement.namespace, args), ...strategiesOf(args), replicas: args.replicas };
    const awaited = { kind: "SandboxSet" as const, conditions: ["Ready", "Updated"], timeout: args.timeout };
    const waits = { ...waitAnnotations(this, awaited), ...deleteInBackground };
    const annotations = { ...disruptionInputs(args), ...followed(from), ...waits };
    const metadata = { ...placement, annotations };
    const declared = declareKind(this, name, sandboxSetKind, { metadata, spec, transform });
    this.name = awaitReady(this, name, awaited, { ...declared, annotations });
    this.namespace = placement.namespace;
    this.nodes = { set: declared.object };
    this.registerOutputs({ name: this.name, namespace: this.namespace });
  }
}

/** Clones use the template that is stored with their checkpoint. */
function originOf(
  set: string,
  namespace: Output<string>,
  { from, volumesOnRestore }: Pick<SandboxSetArgs, "from" | "volumesOnRestore">,
): Record<string, unknown> {
  if (from instanceof SandboxTemplate) return { templateRef: { name: from.name } };
  if (isTemplateName(from)) return { templateRef: { name: from.template } };
  const reference = restoredReference({ set, namespace, from, volumesOnRestore });
  const volumes = volumesOnRestore === undefined ? {} : { [annotationKeys.volumesOnRestore]: volumesOnRestore };
  return { template: { metadata: { annotations: { [restoreFromAnnotations[0]]: reference, ...volumes } } } };
}

function isTemplateName(from: SandboxSetArgs["from"]): from is { template: Input<string> } {
  return typeof from === "object" && "template" in from;
}

function strategiesOf({ maxUnavailable, maxStarting }: SandboxSetArgs): Record<string, unknown> {
  return {
    ...(maxUnavailable !== undefined && { updateStrategy: { maxUnavailable } }),
    ...(maxStarting !== undefined && { scaleStrategy: { maxUnavailable: maxStarting } }),
  };
}

/**
 * An annotation that makes a preview show that the set rolls, and `pulumi up` wait for it. It has no effect in the
 * cluster.
 */
function followed(from: SandboxSetArgs["from"]): Record<string, Output<string>> {
  if (from instanceof NamedSnapshot) return { [followedDigest]: from.digest };
  return from instanceof SandboxTemplate ? { [followedDigest]: from.spec.apply(digestOf) } : {};
}

const followedDigest = "ramet.dev/follows-digest";

interface RestoredVolumes {
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
function restoredReference({ set, namespace, from, volumesOnRestore }: RestoredVolumes): Output<string> {
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
