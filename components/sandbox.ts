import type { apiextensions } from "@pulumi/kubernetes";
import { ComponentResource, type ComponentResourceOptions, type Input, type Output } from "@pulumi/pulumi";
import { sandboxKind } from "../src/api/kinds/sandbox.ts";
import { deleteInBackground, waitForConditions, waitTimeout } from "./await.ts";
import { declareKind, type ObjectTransform } from "./declare.ts";
import { placementBeside, type PlacementArgs } from "./placement.ts";
import { SandboxTemplate } from "./sandbox-template.ts";

export interface SandboxArgs extends PlacementArgs {
  /** What it is made from: a SandboxTemplate, or the name of one. For one that begins with a snapshot, use a `SandboxClone`. */
  from: SandboxTemplate | Input<string>;
  /** When it is deleted, RFC 3339. @default never */
  shutdownTime?: Input<string>;
  /** How long it may take until it is ready: `"5 minutes"`. @default what Pulumi's Kubernetes provider waits: ten minutes */
  timeout?: Input<string>;
  /** Changes what is declared, for what no argument says. */
  transform?: ObjectTransform;
}

/** One sandbox, booted from a template. When the template changes it runs on as it is, and takes the new one with a pause and resume. */
export class Sandbox extends ComponentResource {
  declare readonly name: Output<string>;
  declare readonly namespace: Output<string>;
  /** The objects that it stands for. */
  declare readonly nodes: { sandbox: apiextensions.CustomResource };

  constructor(name: string, args: SandboxArgs, opts: ComponentResourceOptions = {}) {
    const { from, transform, ...inputs } = args;
    super("ramet:index:Sandbox", name, inputs, opts);
    const placement = placementBeside(name, args, from);
    const { shutdownTime, timeout } = args;
    const spec = {
      templateRef: { name: from instanceof SandboxTemplate ? from.name : from },
      ...(shutdownTime !== undefined && { shutdownTime }),
    };
    const annotations = { ...waitForConditions("Ready"), ...waitTimeout(timeout), ...deleteInBackground };
    const metadata = { ...placement, annotations };
    const { object: sandbox } = declareKind(this, name, sandboxKind, { metadata, spec, transform });
    this.name = sandbox.metadata.name;
    this.namespace = placement.namespace;
    this.nodes = { sandbox };
    this.registerOutputs({ name: this.name, namespace: this.namespace });
  }
}
