import { dynamic, output, type CustomResourceOptions, type Input, type Output } from "@pulumi/pulumi";
import { sandboxCloneProvider } from "../provider/dynamic-provider.ts";
import { defined } from "../src/base/defined.ts";
import { NamedSnapshot } from "./named-snapshot.ts";
import { ownerOf, placementBeside, type PlacementArgs } from "./placement.ts";
import { SandboxTemplate } from "./sandbox-template.ts";

export interface SandboxCloneArgs extends PlacementArgs {
  /** A NamedSnapshot, or a reference: `python-data`, `python-data@7`, `python-data@sha256:…`, or a checkpoint id. */
  from: NamedSnapshot | Input<string>;
  /** A SandboxTemplate, or its name, for a snapshot of `filesystem` alone. @default that of the source */
  template?: SandboxTemplate | Input<string>;
  /**
   * How long the clone lives, such as `"8 hours"`. After it expired, `pulumi refresh` and `pulumi up` create a new one.
   * @default forever
   */
  lifetime?: Input<string>;
  /** Ports that are reachable at the clone's address. `url` uses the first. @default the ports that the recipe waits for */
  ports?: Input<Input<number>[]>;
  /**
   * The clone's volumes, if the source has PersistentVolumeClaims whose data it lacks: `Empty` for new claims, `Shared` for
   * the claims of the source. Without it, such a clone is refused, also in a preview. @default none
   */
  volumesOnRestore?: Input<"Empty" | "Shared">;
  /** How long to wait until the clone is ready. @default "5 minutes" */
  timeout?: Input<string>;
}

/** A sandbox that is started from a named snapshot or a checkpoint. Later versions of the snapshot do not change it. */
export class SandboxClone extends dynamic.Resource {
  declare readonly name: Output<string>;
  declare readonly namespace: Output<string>;
  /** The address of the clone's declared ports. */
  declare readonly address: Output<string>;
  /** `http://<address>:<first port>`. Undefined without ports. */
  declare readonly url: Output<string | undefined>;
  /** The id of the checkpoint that the clone was restored from. */
  declare readonly checkpointId: Output<string>;
  /** When the clone is deleted (RFC 3339). Undefined without a lifetime. */
  declare readonly shutdownTime: Output<string | undefined>;

  constructor(name: string, args: SandboxCloneArgs, opts?: CustomResourceOptions) {
    const { from, template, timeout = "5 minutes", ...rest } = args;
    const outputs = { address: undefined, url: undefined, checkpointId: undefined, shutdownTime: undefined };
    const origin = from instanceof NamedSnapshot ? originOf(from) : { from };
    const props = {
      ...outputs,
      ...origin,
      ...defined(rest),
      ...placementBeside(name, args, from, template),
      ...defined({ templateName: template instanceof SandboxTemplate ? template.name : template }),
      timeout,
      owner: ownerOf(name),
      portsFollow: from instanceof NamedSnapshot && args.ports === undefined,
    };
    super(sandboxCloneProvider, name, props, opts, "ramet", "SandboxClone");
  }
}

/** Refers to the snapshot by name, which is resolved when the sandbox starts. A later version changes nothing. */
function originOf({ name, ports, source }: NamedSnapshot) {
  return { from: name, ports, template: output(source).apply((found) => found?.["template"]) };
}
