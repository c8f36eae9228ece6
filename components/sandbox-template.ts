import type { apiextensions } from "@pulumi/kubernetes";
import { all, ComponentResource, output, type ComponentResourceOptions, type Input, type Output } from "@pulumi/pulumi";
import { sandboxTemplateKind } from "../src/api/kinds/sandbox-template.ts";
import { deleteInBackground } from "./await.ts";
import { declareKind, type ObjectTransform } from "./declare-kind.ts";
import { placementOf, type PlacementArgs } from "./placement.ts";
import { podTemplate, type PodArgs } from "./pod-template.ts";

export interface SandboxTemplateArgs extends PlacementArgs, PodArgs {
  /**
   * What is kept over a pause, and by default in a checkpoint: `memory`, `filesystem`, `ip`.
   * @default what the controller takes
   */
  persistentContents?: Input<Input<string>[]>;
  /** Changes what is declared, for what no argument says. */
  transform?: ObjectTransform;
}

/** What sandboxes are made from. */
export class SandboxTemplate extends ComponentResource {
  declare readonly name: Output<string>;
  declare readonly namespace: Output<string>;
  /** The spec, as it stands in the cluster. */
  declare readonly spec: Output<Record<string, unknown>>;
  /** The objects that it stands for. */
  declare readonly nodes: { template: apiextensions.CustomResource };

  constructor(name: string, args: SandboxTemplateArgs, opts: ComponentResourceOptions = {}) {
    const { transform, ...inputs } = args;
    super("ramet:index:SandboxTemplate", name, inputs, opts);
    const placement = placementOf(name, args);
    const declaredSpec = all([podTemplate(args), output(args.persistentContents)]).apply(
      ([pod, persistentContents]): Record<string, unknown> => ({
        template: pod,
        ...(persistentContents !== undefined && { persistentContents }),
      }),
    );
    const metadata = { ...placement, annotations: deleteInBackground };
    const declared = declareKind(this, name, sandboxTemplateKind, { metadata, spec: declaredSpec, transform });
    const { object: template, spec } = declared;
    // What is made from it waits until it is there.
    this.name = template.metadata.name;
    this.namespace = placement.namespace;
    this.spec = spec;
    this.nodes = { template };
    this.registerOutputs({ name: this.name, namespace: this.namespace, spec });
  }
}
