import { dynamic, output, type CustomResourceOptions, type Input, type Output } from "@pulumi/pulumi";
import { sandboxCloneProvider } from "../provider/dynamic-provider.ts";
import { NamedSnapshot } from "./named-snapshot.ts";
import { ownerOf, placementBeside, type PlacementArgs } from "./placement.ts";

export interface SandboxCloneArgs extends PlacementArgs {
  /** A NamedSnapshot, or what names one: `python-data`, `python-data@7`, `python-data@sha256:…`, or a checkpoint id. */
  from: NamedSnapshot | Input<string>;
  /** How long it lives: `"8 hours"`. A later `pulumi up` after a refresh makes it anew. @default for ever */
  lifetime?: Input<string>;
  /** Ports that are reachable at its address; `url` names the first. @default those that the recipe waits for */
  ports?: Input<Input<number>[]>;
  /** How long it may take until it answers. @default "5 minutes" */
  timeout?: Input<string>;
}

/** A sandbox of its own, started from a named snapshot or a checkpoint. It keeps what it got when the snapshot moves on. */
export class SandboxClone extends dynamic.Resource {
  declare readonly name: Output<string>;
  declare readonly namespace: Output<string>;
  /** Where it is reached, on its declared ports. */
  declare readonly address: Output<string>;
  /** `http://<address>:<first port>`; undefined without ports. */
  declare readonly url: Output<string | undefined>;
  /** The checkpoint that it was made from. */
  declare readonly checkpointId: Output<string>;
  /** When it is deleted, RFC 3339; undefined without a lifetime. */
  declare readonly shutdownTime: Output<string | undefined>;

  constructor(name: string, args: SandboxCloneArgs, opts?: CustomResourceOptions) {
    const { from, timeout = "5 minutes", ...rest } = args;
    const outputs = { address: undefined, url: undefined, checkpointId: undefined, shutdownTime: undefined };
    const origin = from instanceof NamedSnapshot ? originOf(from) : { from };
    const props = {
      ...outputs,
      ...origin,
      ...withoutUndefined(rest),
      ...placementBeside(name, args, from),
      timeout,
      owner: ownerOf(name),
      portsFollow: from instanceof NamedSnapshot && args.ports === undefined,
    };
    super(sandboxCloneProvider, name, props, opts, "ramet", "SandboxClone");
  }
}

/** By its name: it is looked up when the sandbox begins, and a version that moves later changes nothing. */
function originOf({ name, ports, source }: NamedSnapshot) {
  return { from: name, ports, template: output(source).apply((found) => found?.["template"]) };
}

function withoutUndefined(values: object): object {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined));
}
