import type { Input } from "@pulumi/pulumi";
import { ownerAnnotation } from "../src/api/names/labels.ts";
import { systemNamespace } from "../src/api/names/system-names.ts";
import { RametError } from "../src/base/errors.ts";
import { besideKeys, type BesideInstallOptions } from "../src/install/beside-manifests.ts";
import { privateRanges } from "../src/install/manifest.ts";
import { keysOf, valueAt } from "../src/install/setting-values.ts";
import { runError } from "./run-error.ts";
import { validatedSettings } from "./runtime-settings.ts";

/** The warning for `mode: "beside"` in a cluster where no other controller is seen. */
export const nothingBeside =
  "No controller of OpenKruise Agents or ACS was found in this cluster: install it, because the controllers that are declared with mode beside run no sandboxes";

/** @throws RunError naming arguments that are missing or have no effect */
export function besideOptions(args: BesideArgs, owner: string): BesideInstallOptions<Input<string>, Input<number>> {
  const { image, replicas = 2, clusterRanges = privateRanges } = args;
  const unused = unusedArguments(args);
  if (unused.length > 0) {
    const why = `Cannot install beside other controllers: ${unused.join(", ")} cannot be used with mode "beside", because other controllers run the sandboxes and store their checkpoints`;
    throw runError(new RametError("InvalidArgument", why));
  }
  if (image === undefined) {
    throw runError(new RametError("InvalidArgument", "Cannot install the controllers: image is required"));
  }
  return {
    ...validatedSettings(besideKeys(), { ...args, image, replicas, clusterRanges }),
    beside: "openkruise",
    namespace: systemNamespace,
    annotations: { [ownerAnnotation]: owner },
  };
}

/** Of the arguments of `RametRuntime`, those that are read here. */
interface BesideArgs {
  image?: Input<string>;
  replicas?: Input<number>;
  clusterRanges?: readonly Input<string>[];
}

/** The given arguments that set something else. Where another setting of a group has an effect, the settings are named. */
function unusedArguments(args: object): string[] {
  const used = besideKeys();
  const usedGroups = new Set(used.map(groupOf));
  const paths = keysOf("manifests")
    .filter((key) => !used.includes(key))
    .map((key) => (usedGroups.has(groupOf(key)) ? key : groupOf(key)));
  return [...new Set(paths)].filter((path) => valueAt(args, path) !== undefined);
}

function groupOf(key: string): string {
  return key.split(".")[0] ?? "";
}
