import type { apiextensions } from "@pulumi/kubernetes";
import { all, ComponentResource, type ComponentResourceOptions, type Input, output, type Output } from "@pulumi/pulumi";
import { sandboxTemplateKind } from "../src/api/kinds/sandbox-template.ts";
import { defined } from "../src/base/defined.ts";
import { deleteInBackground } from "./await.ts";
import { declareKind, type ObjectTransform } from "./declare.ts";
import { type PlacementArgs, placementOf } from "./placement.ts";
import { type PodArgs, podParts } from "./pod-template.ts";

export interface SandboxTemplateArgs extends PlacementArgs, PodArgs {
  /**
   * The contents that a pause keeps and, by default, a checkpoint has: `memory`, `filesystem`, and in a checkpoint `volumes`. Other words
   * select nothing. @default the controller's default
   */
  persistentContents?: Input<Input<string>[]>;
  /** With `volumes` in `persistentContents`, which: their names in the Pod. Also if `persistentContents` is absent. @default all */
  volumes?: Input<Input<string>[]>;
  /** Changes the declared manifest, for settings that have no argument. */
  transform?: ObjectTransform;
}

/** The template from which sandboxes are created. */
export class SandboxTemplate extends ComponentResource {
  declare readonly name: Output<string>;
  declare readonly namespace: Output<string>;
  /** The spec of the SandboxTemplate in the cluster. */
  declare readonly spec: Output<Record<string, unknown>>;
  /** The declared objects. */
  declare readonly nodes: { template: apiextensions.CustomResource };

  constructor(name: string, args: SandboxTemplateArgs, opts: ComponentResourceOptions = {}) {
    const { transform, ...inputs } = args;
    const { name: _, namespace: __, persistentContents, volumes, ...pod } = inputs;
    super("ramet:index:SandboxTemplate", name, inputs, opts);
    const placement = placementOf(name, args);
    const declaredSpec = all([podParts(pod), output(persistentContents), output(volumes)]).apply(
      ([parts, contents, selected]): Record<string, unknown> =>
        defined({ ...parts, persistentContents: contents, volumes: selected }),
    );
    const metadata = { ...placement, annotations: deleteInBackground };
    const declared = declareKind(this, name, sandboxTemplateKind, { metadata, spec: declaredSpec, transform });
    const { object: template, spec } = declared;
    // Resources that use this name wait until the object exists.
    this.name = template.metadata.name;
    this.namespace = placement.namespace;
    this.spec = spec;
    this.nodes = { template };
    this.registerOutputs({ name: this.name, namespace: this.namespace, spec });
  }
}
