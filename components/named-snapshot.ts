import { dynamic, interpolate, secret, type CustomResourceOptions, type Input, type Output } from "@pulumi/pulumi";
import { namedSnapshotProvider } from "../provider/dynamic-provider.ts";
import { ownerOf, placementBeside, type PlacementArgs } from "./placement.ts";
import type { RecipeStepArgs } from "./recipe.ts";
import { partRecipe } from "./recipe-secrets.ts";
import { resolveSource, type SnapshotSourceArgs } from "./snapshot-source.ts";

export interface NamedSnapshotArgs extends PlacementArgs {
  /** What the first step begins with: a SandboxTemplate, another NamedSnapshot, a checkpoint or a running sandbox. */
  from: SnapshotSourceArgs;
  /** The steps, in order: `[run("pip install pandas==2.3.0"), start("python3 -m http.server 8000")]`. @default none */
  recipe?: RecipeStepArgs[];
  /** What a version keeps. Without `memory`, a clone boots on the files. @default ["memory", "filesystem"] */
  contents?: Input<Input<"memory" | "filesystem">[]>;
  /** How many versions are kept; what something refers to is kept in any case. @default 5 */
  keepVersions?: Input<number>;
  /** Whether the versions stay when the named snapshot is removed. @default "Retain" */
  deletionPolicy?: Input<"Retain" | "Delete">;
  /** After which steps the state is captured, so that a later build can begin there. @default "EveryStep" */
  stepCache?: Input<"EveryStep" | "LastStep" | "None">;
  /** How long a build is waited for: `"30 minutes"`. A build that takes longer goes on in the cluster. @default "1 hour" */
  timeout?: Input<string>;
}

/**
 * A name under which immutable versions are kept, each built from a recipe. A preview says which step changes, what is
 * rebuilt and what rolls; a changed digest builds a new version, and the old one serves until that is ready.
 */
export class NamedSnapshot extends dynamic.Resource {
  declare readonly name: Output<string>;
  declare readonly namespace: Output<string>;
  /** The number of the version that serves. */
  declare readonly version: Output<number>;
  /** The digest of what it is built from; previews know it. */
  declare readonly digest: Output<string>;
  /** The checkpoint of the version that serves. */
  declare readonly checkpointId: Output<string>;
  /** The ports that the recipe waits for. */
  declare readonly ports: Output<number[]>;
  /** What it is built from, with every reference followed, where the program knows it. */
  declare readonly source: Output<Record<string, unknown> | undefined>;

  constructor(name: string, args: NamedSnapshotArgs, opts?: CustomResourceOptions) {
    const { from, recipe: steps = [], timeout = "1 hour", ...rest } = args;
    const placement = placementBeside(name, args, from);
    const { recipe, secrets, holdsSecrets } = partRecipe(steps, interpolate`${placement.name}-recipe`);
    const outputs = { version: undefined, digest: undefined, checkpointId: undefined, ports: undefined };
    const props = {
      ...outputs,
      ...rest,
      ...placement,
      ...resolveSource(from),
      ...(secrets !== undefined && { secrets, digestKey: secret("") }),
      ...{ recipe, recipeHoldsSecrets: holdsSecrets, timeout, owner: ownerOf(name) },
    };
    super(namedSnapshotProvider, name, props, opts, "ramet", "NamedSnapshot");
  }
}
