import type { apiextensions } from "@pulumi/kubernetes";
import { ComponentResource, type ComponentResourceOptions, type Input, type Output } from "@pulumi/pulumi";
import { digestOf } from "../src/api/cell/template-digest.ts";
import { restoreFromAnnotations } from "../src/api/names/labels.ts";
import { sandboxSetKind } from "../src/api/kinds/sandbox-set.ts";
import { deleteInBackground, waitForConditions, waitTimeout } from "./await.ts";
import { declareKind, type ObjectTransform } from "./declare.ts";
import { NamedSnapshot } from "./named-snapshot.ts";
import { placementBeside, type PlacementArgs } from "./placement.ts";
import { SandboxTemplate } from "./sandbox-template.ts";

export interface SandboxSetArgs extends PlacementArgs {
  /**
   * What its sandboxes are made from: a SandboxTemplate, a NamedSnapshot, or what names one of those that are there already:
   * `{ template: "python" }`, `"python-data"`, `"python-data@7"`, `"python-data@sha256:…"`, or a checkpoint id. It follows a
   * NamedSnapshot without a version: when that moves, the set rolls.
   */
  from: SandboxTemplate | NamedSnapshot | { template: Input<string> } | Input<string>;
  /** How many ready sandboxes to hold that nobody has claimed. */
  replicas: Input<number>;
  /** How many fewer may be ready while it rolls: a number, or a percentage like `"20%"`. @default "20%" */
  maxUnavailable?: Input<number | string>;
  /** How many may be on their way at once: a number or a percentage. @default all */
  maxStarting?: Input<number | string>;
  /** How long it may take until all are ready: `"30 minutes"`. @default what Pulumi's Kubernetes provider waits: ten minutes */
  timeout?: Input<string>;
  /** Changes what is declared, for what no argument says. */
  transform?: ObjectTransform;
}

/** A pool: ready sandboxes that nobody has claimed, refilled when one is claimed. */
export class SandboxSet extends ComponentResource {
  declare readonly name: Output<string>;
  declare readonly namespace: Output<string>;
  /** The objects that it stands for. */
  declare readonly nodes: { set: apiextensions.CustomResource };

  constructor(name: string, args: SandboxSetArgs, opts: ComponentResourceOptions = {}) {
    const { from, transform, ...inputs } = args;
    super("ramet:index:SandboxSet", name, inputs, opts);
    const placement = placementBeside(name, args, from);
    const spec = { ...originOf(from), ...strategiesOf(args), replicas: args.replicas };
    const waits = { ...waitForConditions("Ready", "Updated"), ...waitTimeout(args.timeout) };
    const metadata = { ...placement, annotations: { ...followed(from), ...waits, ...deleteInBackground } };
    const { object: set } = declareKind(this, name, sandboxSetKind, { metadata, spec, transform });
    this.name = set.metadata.name;
    this.namespace = placement.namespace;
    this.nodes = { set };
    this.registerOutputs({ name: this.name, namespace: this.namespace });
  }
}

/** A clone takes the template that was kept with its checkpoint. */
function originOf(from: SandboxSetArgs["from"]): Record<string, unknown> {
  if (from instanceof SandboxTemplate) return { templateRef: { name: from.name } };
  if (isTemplateName(from)) return { templateRef: { name: from.template } };
  const reference = from instanceof NamedSnapshot ? from.name : from;
  return { template: { metadata: { annotations: { [restoreFromAnnotations[0]]: reference } } } };
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

/** So that a preview shows that the set rolls, and `pulumi up` waits for it. It has no effect in the cluster. */
function followed(from: SandboxSetArgs["from"]): Record<string, Output<string>> {
  if (from instanceof NamedSnapshot) return { [followedDigest]: from.digest };
  return from instanceof SandboxTemplate ? { [followedDigest]: from.spec.apply(digestOf) } : {};
}

const followedDigest = "ramet.dev/follows-digest";
