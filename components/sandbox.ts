import type { apiextensions } from "@pulumi/kubernetes";
import { ComponentResource, type ComponentResourceOptions, type Input, type Output } from "@pulumi/pulumi";
import { sandboxKind } from "../src/api/kinds/sandbox.ts";
import { defined } from "../src/base/defined.ts";
import { deleteInBackground } from "./await.ts";
import { declareKind, type ObjectTransform, awaitReady, waitAnnotations } from "./declare.ts";
import { placementBeside, type PlacementArgs } from "./placement.ts";
import { SandboxTemplate } from "./sandbox-template.ts";

export interface SandboxArgs extends PlacementArgs {
  /** The SandboxTemplate, or its name. To start from a snapshot, use a `SandboxClone`. */
  from: SandboxTemplate | Input<string>;
  /** When the sandbox is deleted (RFC 3339). @default never */
  shutdownTime?: Input<string>;
  /**
   * How long to wait until the sandbox is ready, such as `"5 minutes"`. The wait ends after 3 minutes if its image cannot be
   * pulled.
   * @default "10 minutes"
   */
  timeout?: Input<string>;
  /** Changes the declared manifest, for settings that have no argument. */
  transform?: ObjectTransform;
}

/**
 * A sandbox that boots from a template. If the template changes, the sandbox keeps running with the earlier one. After a pause
 * without memory, it resumes with the new one.
 */
export class Sandbox extends ComponentResource {
  declare readonly name: Output<string>;
  declare readonly namespace: Output<string>;
  /** The declared objects. */
  declare readonly nodes: { sandbox: apiextensions.CustomResource };

  constructor(name: string, args: SandboxArgs, opts: ComponentResourceOptions = {}) {
    const { from, transform, ...inputs } = args;
    super("ramet:index:Sandbox", name, inputs, opts);
    const placement = placementBeside(name, args, from);
    const { shutdownTime, timeout } = args;
    const spec = {
      templateRef: { name: from instanceof SandboxTemplate ? from.name : from },
      ...defined({ shutdownTime }),
    };
    const awaited = { kind: "Sandbox" as const, conditions: ["Ready"], timeout };
    const annotations = { ...waitAnnotations(this, awaited), ...deleteInBackground };
    const metadata = { ...placement, annotations };
    const declared = declareKind(this, name, sandboxKind, { metadata, spec, transform });
    this.name = awaitReady(this, name, awaited, { ...declared, annotations });
    this.namespace = placement.namespace;
    this.nodes = { sandbox: declared.object };
    this.registerOutputs({ name: this.name, namespace: this.namespace });
  }
}
