import {
  CustomResource,
  type CustomResourceOptions,
  dynamic,
  type Input,
  interpolate,
  isSecret,
  type Output,
  output,
  secret,
} from "@pulumi/pulumi";
import { namedSnapshotProvider } from "../provider/dynamic-provider.ts";
import { ownerOf, type PlacementArgs, placementBeside } from "./placement.ts";
import type { RecipeStepArgs } from "./recipe.ts";
import { SandboxTemplate } from "./sandbox-template.ts";

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
    const { recipe, secrets, holdsSecrets } = extractSecrets(steps, interpolate`${placement.name}-recipe`);
    const outputs = { version: undefined, digest: undefined, checkpointId: undefined, ports: undefined };
    const props = {
      ...outputs,
      ...rest,
      ...placement,
      ...resolveSource(from),
      ...(secrets !== undefined && { secrets, digestKey: secret("") }),
      recipe,
      recipeHoldsSecrets: holdsSecrets,
      timeout,
      owner: ownerOf(name),
    };
    super(namedSnapshotProvider, name, props, opts, "ramet", "NamedSnapshot");
  }
}

/** A recipe of which the secrets have been taken out, into a Secret that its steps then name. */
interface ExtractedRecipe {
  recipe: Output<Record<string, unknown>[]>;
  /** By key of the Secret; absent when no step copies one. */
  secrets: Record<string, Output<string>> | undefined;
  /** Whether there is a secret in what is left. */
  holdsSecrets: Output<boolean>;
}

/** @param secretName the Secret that holds what is taken out */
function extractSecrets(steps: readonly RecipeStepArgs[], secretName: Input<string>): ExtractedRecipe {
  const secrets: Record<string, Output<string>> = {};
  const plain = steps.map((step) => {
    if (step.copy?.secret === undefined) return step;
    const { secret: text, ...copy } = step.copy;
    const key = freeKey(secrets, copy.path);
    secrets[key] = secret(text);
    return { ...step, copy: { ...copy, secretKeyRef: { name: secretName, key } } };
  });
  const recipe = output(plain) as Output<Record<string, unknown>[]>;
  return {
    recipe,
    secrets: Object.keys(secrets).length === 0 ? undefined : secrets,
    holdsSecrets: output(isSecret(recipe)),
  };
}

/** The key says where the file goes, so that another step before it changes nothing. */
function freeKey(taken: object, path: Input<string>): string {
  const text = typeof path === "string" ? path.replace(/^\/+/, "").replace(/[^-._a-zA-Z0-9]/g, "_") : "file";
  const base = text === "" ? "file" : text;
  for (let count = 1; ; count++) {
    const key = count === 1 ? base : `${base}-${count}`;
    if (!Object.hasOwn(taken, key)) return key;
  }
}

/** What something is made from: a resource of this program, or what exists already. */
export type SnapshotSourceArgs =
  | SandboxTemplate
  | NamedSnapshot
  /** A kept version: by `version` or by `digest`. Without either, the current one. */
  | { snapshot: Input<string>; version?: Input<number>; digest?: Input<string> }
  /** A checkpoint, by its id. */
  | { checkpoint: Input<string> }
  /** A sandbox that runs; it is captured once and goes on. */
  | { sandbox: Input<string> };

/** For the API, and what is known of it for the digest. */
interface ResolvedSnapshotSource {
  from: Input<Record<string, unknown>>;
  source: Input<Record<string, unknown>> | undefined;
}

function resolveSource(from: SnapshotSourceArgs): ResolvedSnapshotSource {
  if (from instanceof SandboxTemplate)
    return { from: { template: { name: from.name } }, source: { template: from.spec } };
  if (from instanceof CustomResource) {
    return { from: { snapshot: { name: from.name } }, source: { snapshot: { digest: from.digest } } };
  }
  if ("checkpoint" in from) {
    const checkpoint = { checkpoint: { id: from.checkpoint } };
    return { from: checkpoint, source: checkpoint };
  }
  if ("sandbox" in from) return { from: { sandbox: { name: from.sandbox } }, source: undefined };
  const { snapshot: name, version, digest } = from;
  const pinned = { ...(version !== undefined && { version }), ...(digest !== undefined && { digest }) };
  return {
    from: { snapshot: { name, ...pinned } },
    source: digest === undefined ? undefined : { snapshot: { digest } },
  };
}
