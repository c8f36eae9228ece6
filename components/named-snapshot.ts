import {
  CustomResource,
  type CustomResourceOptions,
  type Input,
  interpolate,
  isSecret,
  mergeOptions,
  type Output,
  output,
  type RunError,
  secret,
} from "@pulumi/pulumi";
import { sourceReference } from "../provider/handlers/named-snapshot/inputs.ts";
import { freeKey } from "../provider/handlers/named-snapshot/recipe-secret.ts";
import { defined } from "../src/base/defined.ts";
import { RametError } from "../src/base/errors.ts";
import { ownerOf, type PlacementArgs, placementBeside, typedPlacement } from "./placement.ts";
import { RametResource } from "./ramet-resource.ts";
import type { RecipeStepArgs } from "./recipe.ts";
import { runError } from "./run-error.ts";
import { SandboxTemplate } from "./sandbox-template.ts";

export interface NamedSnapshotArgs extends PlacementArgs {
  /** The start of the first step: a SandboxTemplate, another NamedSnapshot, a checkpoint or a running sandbox. */
  from: SnapshotSourceArgs;
  /** The build steps in order: `[run("pip install pandas==2.3.0"), start("python3 -m http.server 8000")]`. @default none */
  recipe?: RecipeStepArgs[];
  /**
   * The contents of a version. Without `memory`, a clone boots from the files. With `volumes`, clones get claims with the data of the
   * builder's PersistentVolumeClaims.
   * @default ["memory", "filesystem"]
   */
  contents?: Input<Input<"memory" | "filesystem" | "volumes">[]>;
  /** With `volumes` in `contents`, which: their names in the sandbox's Pod. @default all */
  volumes?: Input<Input<string>[]>;
  /** Number of versions to keep. Versions that are in use are always kept. @default 5 */
  keepVersions?: Input<number>;
  /** Whether the versions are kept or deleted with the named snapshot. @default "Retain" */
  deletionPolicy?: Input<"Retain" | "Delete">;
  /** After which steps the state is captured, so that a later build can start from there. @default "EveryStep" */
  stepCache?: Input<"EveryStep" | "LastStep" | "None">;
  /**
   * Whether the steps before the first `start` or `waitFor` make a layer of files, which all clones on a node share. What these steps
   * leave running ends. Needs a template without volume mounts as the source. @default where possible
   */
  layers?: Input<boolean>;
  /**
   * The volumes of the sandboxes that build a version, if the source has PersistentVolumeClaims and `contents` lacks
   * `volumes`, or `volumes` lacks some of them. `Empty` for new claims, `Shared` for the claims of the source. Without it, such a snapshot is refused, also in a preview.
   * @default none
   */
  volumesOnRestore?: Input<"Empty" | "Shared">;
  /**
   * The reaction to an upgrade of Ramet with another engine: `Auto` builds the current version again in the background,
   * `Manual` keeps its engine until a build is requested. @default "Auto"
   */
  engineUpgrade?: Input<"Auto" | "Manual">;
  /** Whether nothing is built and the current version stays. @default false */
  suspend?: Input<boolean>;
  /** A kept version that stays current, and nothing is built, such as during an incident. @default the latest version is current */
  pinnedVersion?: Input<number>;
  /** Labels of the object. @default none */
  labels?: Input<Record<string, Input<string>>>;
  /** Annotations of the object, besides Ramet's own. @default none */
  annotations?: Input<Record<string, Input<string>>>;
  /** How long to wait for a build, such as `"30 minutes"`. A longer build continues in the cluster. @default "1 hour" */
  timeout?: Input<string>;
}

/**
 * A name with immutable versions, each built from a recipe. A preview shows which step changes, what is rebuilt and
 * which sets roll. A changed digest builds a new version; the old one stays current until the new one is ready.
 */
export class NamedSnapshot extends RametResource {
  declare readonly name: Output<string>;
  declare readonly namespace: Output<string>;
  /** The number of the current version. */
  declare readonly version: Output<number>;
  /** The digest of the build inputs. Known in previews. */
  declare readonly digest: Output<string>;
  /** The id of the current version's checkpoint. */
  declare readonly checkpointId: Output<string>;
  /** The current version as other resources and commands name it, such as `python-data@7`. */
  declare readonly reference: Output<string>;
  /** The size of the current version's checkpoint. Undefined where its parts do not report it. */
  declare readonly sizeBytes: Output<number | undefined>;
  /** When the current version was ready (RFC 3339). */
  declare readonly createdAt: Output<string>;
  /** The engine that the memory of the current version needs. Undefined without memory. */
  declare readonly engine: Output<string | undefined>;
  /** The ports that the recipe waits for, then those of the snapshot it is built from, if this program declares it. */
  declare readonly ports: Output<number[]>;
  /** The resolved source of the build, if the program knows it. */
  declare readonly source: Output<Record<string, unknown> | undefined>;

  constructor(name: string, args: NamedSnapshotArgs, opts?: CustomResourceOptions) {
    const { from, recipe: steps = [], timeout = "1 hour", ...rest } = args;
    const placement = placementBeside(name, args, from);
    const { recipe, secrets, holdsSecrets } = extractSecrets(steps, interpolate`${placement.name}-recipe`);
    const source = resolveSource(from);
    const inputs = {
      outputs: ["version", "digest", "checkpointId", "reference", "sizeBytes", "createdAt", "engine", "ports"],
      dynamic: {
        ...rest,
        ...placement,
        ...source,
        ...(secrets !== undefined && { secrets, digestKey: secret("") }),
        recipe,
        recipeHoldsSecrets: holdsSecrets,
        timeout,
        owner: ownerOf(name),
      },
      typed: {
        ...rest,
        ...typedPlacement(args, placement, from),
        ...source,
        from: output(source.from).apply(sourceReference),
        recipe: steps,
        timeout,
      },
    };
    // The inputs of a version, beside those of a later build that has failed, are of the program.
    super("NamedSnapshot", name, inputs, mergeOptions(opts, { additionalSecretOutputs: ["served"] }));
  }
}

/** A recipe whose secrets have been moved into a Secret that its steps refer to. */
interface ExtractedRecipe {
  recipe: Output<Record<string, unknown>[]>;
  /** Values by key of the Secret. Absent if no step copies a secret. */
  secrets: Record<string, Output<string>> | undefined;
  /** Whether the remaining recipe contains a secret. */
  holdsSecrets: Output<boolean>;
}

/** @param secretName the Secret for the extracted values */
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

/** The source of a named snapshot: a resource of this program, or an existing object. */
export type SnapshotSourceArgs =
  | SandboxTemplate
  | NamedSnapshot
  /** An existing SandboxTemplate, by its name. */
  | { template: Input<string> }
  /** An existing named snapshot: a version by `version` or `digest`, else the current one. */
  | { snapshot: Input<string>; version?: Input<number>; digest?: Input<string> }
  /** A checkpoint, by its id. */
  | { checkpoint: Input<string> }
  /** A running sandbox. It is captured once and keeps running. */
  | { sandbox: Input<string> };

/** The source for the API, and the resolved source for the digest. */
interface ResolvedSnapshotSource {
  from: Input<Record<string, unknown>>;
  source: Input<Record<string, unknown>> | undefined;
  /** The ports on which processes of another named snapshot of this program listen. */
  inheritedPorts?: Input<number[]>;
}

/** @throws RunError if a program without types names no source */
function resolveSource(from: SnapshotSourceArgs): ResolvedSnapshotSource {
  if (typeof from !== "object") throw noSource();
  if (from instanceof SandboxTemplate)
    return { from: { template: { name: from.name } }, source: { template: from.spec } };
  if (from instanceof CustomResource) {
    const source = { snapshot: { digest: from.digest } };
    return { from: { snapshot: { name: from.name } }, source, inheritedPorts: from.ports };
  }
  if ("checkpoint" in from) {
    const checkpoint = { checkpoint: { id: from.checkpoint } };
    return { from: checkpoint, source: checkpoint };
  }
  if ("template" in from) return { from: { template: { name: from.template } }, source: undefined };
  if ("sandbox" in from) return { from: { sandbox: { name: from.sandbox } }, source: undefined };
  if (!("snapshot" in from)) throw noSource();
  const { snapshot: name, version, digest } = from;
  const pinned = defined({ version, digest });
  return {
    from: { snapshot: { name, ...pinned } },
    source: digest === undefined ? undefined : { snapshot: { digest } },
  };
}

function noSource(): RunError {
  return runError(
    new RametError("InvalidArgument", "The argument from of a NamedSnapshot names no source", {
      hint: "Use a SandboxTemplate, a NamedSnapshot, { template }, { snapshot }, { checkpoint } or { sandbox }",
    }),
  );
}
