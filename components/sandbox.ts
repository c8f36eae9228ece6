import type { apiextensions } from "@pulumi/kubernetes";
import { ComponentResource, type ComponentResourceOptions, type Input, type Output } from "@pulumi/pulumi";
import { sandboxKind } from "../src/api/kinds/sandbox.ts";
import { deleteInBackground, waitForConditions, waitTimeout } from "./await.ts";
import { declareKind, type ObjectTransform } from "./declare.ts";
import { placementBeside, type PlacementArgs } from "./placement.ts";
import { SandboxTemplate } from "./sandbox-template.ts";

export interface SandboxArgs extends PlacementArgs {
  /** The SandboxTemplate, or its name. To start from a snapshot, use a `SandboxClone`. */
  from: SandboxTemplate | Input<string>;
  /** When the sandbox is deleted (RFC 3339). @default never */
  shutdownTime?: Input<string>;
  /**
   * How long to wait until the sandbox is ready, such as `"5 minutes"`.
   * @default 10 minutes, the default of Pulumi's Kubernetes provider
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
