import { apiextensions } from "@pulumi/kubernetes";
import { ComponentResource, output, type ComponentResourceOptions, type Input, type Output } from "@pulumi/pulumi";
import { sandboxKind } from "../src/api/sandbox.ts";
import { removedInBackground, waitingFor } from "./await.ts";
import { placementBeside, type PlacementArgs } from "./placement.ts";
import type { SandboxTemplate } from "./sandbox-template.ts";

export interface SandboxArgs extends PlacementArgs {
  /** What it is made from. For one that begins with a snapshot, use a `SandboxClone`. */
  from: SandboxTemplate;
  /** When it is deleted, RFC 3339. @default never */
  shutdownTime?: Input<string>;
  /** Changes what is declared, for what no argument says. */
  transform?: { sandbox?: (spec: Record<string, unknown>) => Record<string, unknown> };
}

/** One sandbox, booted from a template. It keeps what it was made from when the template changes. */
export class Sandbox extends ComponentResource {
  declare readonly name: Output<string>;
  declare readonly namespace: Output<string>;
  /** The objects that it stands for. */
  declare readonly nodes: { sandbox: apiextensions.CustomResource };

  constructor(name: string, args: SandboxArgs, opts: ComponentResourceOptions = {}) {
    const { from, transform, ...wished } = args;
    super("ramet:index:Sandbox", name, wished, opts);
    const placement = placementBeside(name, args, from);
    const { shutdownTime } = args;
    const spec = output({
      templateRef: { name: from.name },
      ...(shutdownTime !== undefined && { shutdownTime }),
    }).apply((plain: Record<string, unknown>) => transform?.sandbox?.(plain) ?? plain);
    const { apiVersion, kind } = sandboxKind;
    const metadata = { ...placement, annotations: { ...waitingFor("Ready"), ...removedInBackground } };
    const sandbox = new apiextensions.CustomResource(name, { apiVersion, kind, metadata, spec }, { parent: this });
    this.name = sandbox.metadata.name;
    this.namespace = placement.namespace;
    this.nodes = { sandbox };
    this.registerOutputs({ name: this.name, namespace: this.namespace });
  }
}
