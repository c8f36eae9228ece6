import { apiextensions } from "@pulumi/kubernetes";
import { all, ComponentResource, output, type ComponentResourceOptions, type Input, type Output } from "@pulumi/pulumi";
import { sandboxTemplateKind } from "../src/api/sandbox-template.ts";
import { removedInBackground } from "./await.ts";
import { placementOf, type PlacementArgs } from "./placement.ts";
import { podTemplate, type PodArgs } from "./pod-template.ts";

export interface SandboxTemplateArgs extends PlacementArgs, PodArgs {
  /**
   * What is kept over a pause, and by default in a checkpoint: `memory`, `filesystem`, `ip`.
   * @default what the controller takes
   */
  persistentContents?: Input<Input<string>[]>;
  /** Changes what is declared, for what no argument says. */
  transform?: { template?: (spec: Record<string, unknown>) => Record<string, unknown> };
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
    const { transform, ...wished } = args;
    super("ramet:index:SandboxTemplate", name, wished, opts);
    const placement = placementOf(name, args);
    const spec = all([podTemplate(args), output(args.persistentContents)]).apply(
      ([template, persistentContents]): Record<string, unknown> => {
        const plain: Record<string, unknown> = {
          template,
          ...(persistentContents !== undefined && { persistentContents }),
        };
        return transform?.template?.(plain) ?? plain;
      },
    );
    const { apiVersion, kind } = sandboxTemplateKind;
    const template = new apiextensions.CustomResource(
      name,
      { apiVersion, kind, metadata: { ...placement, annotations: removedInBackground }, spec },
      { parent: this },
    );
    // What is made from it waits until it is there.
    this.name = template.metadata.name;
    this.namespace = placement.namespace;
    this.spec = spec;
    this.nodes = { template };
    this.registerOutputs({ name: this.name, namespace: this.namespace, spec });
  }
}
