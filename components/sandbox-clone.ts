import { output, type CustomResourceOptions, type Input, type Output } from "@pulumi/pulumi";
import { defined } from "../src/base/defined.ts";
import { NamedSnapshot } from "./named-snapshot.ts";
import { ownerOf, placementBeside, type PlacementArgs, typedPlacement } from "./placement.ts";
import { RametResource } from "./ramet-resource.ts";
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
  /** Ports that are reachable in the cluster. `url` uses the first. @default the ports that the recipe waits for */
  ports?: Input<Input<number>[]>;
  /**
   * Those of the ports that everyone who can connect to the gateways reaches without a token. All others need one.
   * @default none
   */
  publicPorts?: Input<Input<number>[]>;
  /**
   * The clone's volumes, if the source has PersistentVolumeClaims whose data it lacks: `Empty` for new claims, `Shared` for
   * the claims of the source. Without it, such a clone is refused, also in a preview. @default none
   */
  volumesOnRestore?: Input<"Empty" | "Shared">;
  /** How long to wait until the clone is ready. @default "5 minutes" */
  timeout?: Input<string>;
}

/** A sandbox that is started from a named snapshot or a checkpoint. Later versions of the snapshot do not change it. */
export class SandboxClone extends RametResource {
  declare readonly name: Output<string>;
  declare readonly namespace: Output<string>;
  /** The address of the clone's declared ports. */
  declare readonly address: Output<string>;
  /**
   * The first port at the gateways, such as `https://8000-team-a--dev.sandboxes.example.org`; where they have no domain, at the
   * clone's address. Undefined without ports.
   */
  declare readonly url: Output<string | undefined>;
  /** The id of the checkpoint that the clone was restored from. */
  declare readonly checkpointId: Output<string>;
  /** When the clone is deleted (RFC 3339). Undefined without a lifetime. */
  declare readonly shutdownTime: Output<string | undefined>;

  constructor(name: string, args: SandboxCloneArgs, opts?: CustomResourceOptions) {
    const { from, template, timeout = "5 minutes", ...rest } = args;
    const origin = from instanceof NamedSnapshot ? originOf(from) : { from };
    const placement = placementBeside(name, args, from, template);
    const templateName = template instanceof SandboxTemplate ? template.name : template;
    const portsFollow = from instanceof NamedSnapshot && args.ports === undefined;
    const { template: _, ...typedOrigin } = { template: undefined, ...origin };
    const inputs = {
      outputs: ["address", "url", "checkpointId", "shutdownTime"],
      dynamic: {
        ...origin,
        ...defined(rest),
        ...placement,
        ...defined({ templateName }),
        timeout,
        owner: ownerOf(name),
        portsFollow,
      },
      typed: {
        ...typedOrigin,
        ...defined(rest),
        ...typedPlacement(args, placement, from),
        ...defined({ template: templateName }),
        timeout,
        portsFollow,
      },
    };
    super("SandboxClone", name, inputs, opts);
  }
}

/** Refers to the snapshot by name, which is resolved when the sandbox starts. A later version changes nothing. */
function originOf({ name, ports, source }: NamedSnapshot) {
  return { from: name, ports, template: output(source).apply((found) => found?.["template"]) };
}
