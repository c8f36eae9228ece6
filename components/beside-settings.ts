import type { Input } from "@pulumi/pulumi";
import { ownerAnnotation } from "../src/api/names/labels.ts";
import { systemNamespace } from "../src/api/names/system-names.ts";
import { RametError } from "../src/base/errors.ts";
import { type BesideInstallOptions, besideQuotas } from "../src/install/beside-manifests.ts";
import { privateRanges } from "../src/install/manifest.ts";
import { runError, validatedField } from "./run-error.ts";
import { type NamespaceQuotaArgs, validatedQuota, validatedReaders, validatedSelector } from "./runtime-settings.ts";

/** The warning for `mode: "beside"` in a cluster where no other controller is seen. */
export const nothingBeside =
  "No controller of OpenKruise Agents or ACS was found in this cluster: install it, because the controllers that are declared with mode beside run no sandboxes";

/** The arguments of `RametRuntime` that matter here. */
interface BesideArgs extends Partial<Record<(typeof unusedArguments)[number], unknown>> {
  image?: Input<string>;
  replicas?: Input<number>;
  clusterRanges?: readonly Input<string>[];
  metricsNamespace?: Input<string>;
  metricsFromAllNamespaces?: boolean;
  namespaceQuota?: NamespaceQuotaArgs;
  namespaceSelector?: Input<string>;
}

/** @throws RunError naming arguments that are missing or have no effect */
export function besideOptions(args: BesideArgs, owner: string): BesideInstallOptions<Input<string>, Input<number>> {
  const { image, replicas = 2, clusterRanges = privateRanges, namespaceQuota, namespaceSelector } = args;
  const unused = [
    ...unusedArguments.filter((name) => args[name] !== undefined),
    ...(["storeBytes", "checkpoints"] as const)
      .filter((quota) => namespaceQuota?.[quota] !== undefined)
      .map((quota) => `namespaceQuota.${quota}`),
  ];
  if (unused.length > 0) {
    const why = `Cannot install beside other controllers: ${unused.join(", ")} cannot be used with mode "beside", because other controllers run the sandboxes and store their checkpoints`;
    throw runError(new RametError("InvalidArgument", why));
  }
  if (image === undefined) {
    throw runError(new RametError("InvalidArgument", "Cannot install the controllers: image is required"));
  }
  return {
    beside: "openkruise",
    namespace: systemNamespace,
    annotations: { [ownerAnnotation]: owner },
    image: validatedField("image", image),
    replicas: validatedField("replicas", replicas),
    clusterRanges: clusterRanges.map((range) => validatedField("clusterRanges", range)),
    ...validatedReaders(args),
    ...(namespaceSelector !== undefined && { namespaceSelector: validatedSelector(namespaceSelector) }),
    ...(namespaceQuota && { namespaceQuota: validatedQuota(ofBuilds(namespaceQuota)) }),
  };
}

function ofBuilds(quota: NamespaceQuotaArgs) {
  return Object.fromEntries(besideQuotas.flatMap((name) => (quota[name] === undefined ? [] : [[name, quota[name]]])));
}

const unusedArguments = [
  "store",
  "cellImage",
  "gatewayReplicas",
  "clusterDomain",
  "egress",
  "servedNamespaces",
  "cells",
  "gateway",
  "clientApi",
  "encryption",
  "importVolumes",
] as const;
