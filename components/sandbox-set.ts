import { apiextensions } from "@pulumi/kubernetes";
import { ComponentResource, output, type ComponentResourceOptions, type Input, type Output } from "@pulumi/pulumi";
import { digestOf } from "../src/api/digest.ts";
import { restoreFromAnnotations } from "../src/api/labels.ts";
import { sandboxSetKind } from "../src/api/sandbox-set.ts";
import { removedInBackground, waitingFor } from "./await.ts";
import { NamedSnapshot } from "./named-snapshot.ts";
import { placementBeside, type PlacementArgs } from "./placement.ts";
import type { SandboxTemplate } from "./sandbox-template.ts";

export interface SandboxSetArgs extends PlacementArgs {
  /** What its sandboxes are made from. It follows a NamedSnapshot: when the version moves, the set rolls. */
  from: SandboxTemplate | NamedSnapshot;
  /** How many ready sandboxes to hold that nobody has claimed. */
  replicas: Input<number>;
  /** How many fewer may be ready while it rolls: a number, or a percentage like `"20%"`. @default "20%" */
  maxUnavailable?: Input<number | string>;
  /** How many may be on their way at once: a number or a percentage. @default all */
  maxStarting?: Input<number | string>;
  /** Changes what is declared, for what no argument says. */
  transform?: { set?: (spec: Record<string, unknown>) => Record<string, unknown> };
}

/** A pool: ready sandboxes that nobody has claimed, refilled when one is claimed. */
export class SandboxSet extends ComponentResource {
  declare readonly name: Output<string>;
  declare readonly namespace: Output<string>;
  /** The objects that it stands for. */
  declare readonly nodes: { set: apiextensions.CustomResource };

  constructor(name: string, args: SandboxSetArgs, opts: ComponentResourceOptions = {}) {
    const { from, transform, ...wished } = args;
    super("ramet:index:SandboxSet", name, wished, opts);
    const placement = placementBeside(name, args, from);
    const follows = from instanceof NamedSnapshot ? from.digest : from.spec.apply(digestOf);
    const spec = output({ ...originOf(from), ...strategiesOf(args), replicas: args.replicas }).apply(
      (plain: Record<string, unknown>) => transform?.set?.(plain) ?? plain,
    );
    const { apiVersion, kind } = sandboxSetKind;
    const metadata = {
      ...placement,
      annotations: { [followedDigest]: follows, ...waitingFor("Ready", "Updated"), ...removedInBackground },
    };
    const set = new apiextensions.CustomResource(name, { apiVersion, kind, metadata, spec }, { parent: this });
    this.name = set.metadata.name;
    this.namespace = placement.namespace;
    this.nodes = { set };
    this.registerOutputs({ name: this.name, namespace: this.namespace });
  }
}

/** A clone takes the template that was kept with its checkpoint. */
function originOf(from: SandboxSetArgs["from"]): Record<string, unknown> {
  return from instanceof NamedSnapshot
    ? { template: { metadata: { annotations: { [restoreFromAnnotations[0]]: from.name } } } }
    : { templateRef: { name: from.name } };
}

function strategiesOf({ maxUnavailable, maxStarting }: SandboxSetArgs): Record<string, unknown> {
  return {
    ...(maxUnavailable !== undefined && { updateStrategy: { maxUnavailable } }),
    ...(maxStarting !== undefined && { scaleStrategy: { maxUnavailable: maxStarting } }),
  };
}

/** So that a preview shows that the set rolls, and `pulumi up` waits for it. It has no effect in the cluster. */
const followedDigest = "ramet.dev/follows-digest";
