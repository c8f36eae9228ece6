import { controllersMode } from "../api/names/system-names.ts";
import { parseLabelSelector } from "../api/names/label-selector.ts";
import { rametGroup } from "../api/schema/kind.ts";
import { apiKeyPolicy } from "./api-key-policy.ts";
import { rightsBeside } from "./beside-rights.ts";
import { clientRole } from "./client-role.ts";
import { controllerManifests } from "./controller-manifests.ts";
import { type FieldNames, parseInstallField } from "./install-fields.ts";
import type { InstallOptions } from "./install-options.ts";
import type { Manifest } from "./manifest.ts";
import { lastingManifests } from "./manifests.ts";
import { parseMetricsReaders } from "./metrics-readers.ts";
import { publicConfigMap } from "./public-config-map.ts";
import { restoreFromPolicy } from "./restore-from-policy.ts";
import { clusterRangeFlags, quotaFlags, selectorFlags } from "./server-flags.ts";
import { recipePolicies } from "./template-policies.ts";

/** The settings of an installation beside other controllers. */
export type BesideInstallOptions<Text = string, Count = number> = Pick<
  InstallOptions<Text, Count>,
  | "namespace"
  | "annotations"
  | "image"
  | "replicas"
  | "clusterRanges"
  | "metricsNamespace"
  | "metricsFromAllNamespaces"
  | "namespaceQuota"
  | "namespaceSelector"
> & { beside: Text };

/** The same for a user's options, as `parseInstallOptions`. @throws RametError `InvalidArgument` */
export function parseBesideOptions(given: BesideInstallOptions, fieldNames: FieldNames): BesideInstallOptions {
  const { namespace, image, replicas, clusterRanges, namespaceQuota = {}, namespaceSelector } = given;
  const quotas = besideQuotas.flatMap((quota) => {
    const limit = namespaceQuota[quota];
    const field = `namespaceQuota.${quota}` as const;
    return limit === undefined ? [] : [[quota, parseInstallField(field, limit, fieldNames[field])] as const];
  });
  return {
    beside: given.beside,
    namespace: parseInstallField("namespace", namespace, fieldNames.namespace),
    image: parseInstallField("image", image, fieldNames.image),
    replicas: parseInstallField("replicas", replicas, fieldNames.replicas),
    clusterRanges: clusterRanges.map((range) => parseInstallField("clusterRanges", range, fieldNames.clusterRanges)),
    ...parseMetricsReaders(given, fieldNames),
    ...(quotas.length > 0 && { namespaceQuota: Object.fromEntries(quotas) }),
    ...(namespaceSelector && {
      namespaceSelector: {
        text: parseInstallField("namespaceSelector", namespaceSelector.text, fieldNames.namespaceSelector),
        requirements: parseLabelSelector(namespaceSelector.text, fieldNames.namespaceSelector),
      },
    }),
  };
}

/** The quotas of namespaces that apply beside other controllers, which store the checkpoints. */
export const besideQuotas = ["builds", "fetches"] as const;

/** The manifests that must outlive the controllers: of the CRDs, only Ramet's own. */
export function besideLastingManifests(options: Pick<BesideInstallOptions, "namespace">): Manifest[] {
  return lastingManifests(options, [rametGroup]);
}

/** The controllers and their permissions. Templates of sandboxes are subject to the policies of their own controllers. */
export function besideServerManifests(options: BesideInstallOptions<unknown, unknown>): Manifest[] {
  return [
    ...controllerManifests(options, { rights: rightsBeside, args: controllerArgs(options) }),
    ...recipePolicies(options),
    ...restoreFromPolicy(options),
    ...apiKeyPolicy(),
    clientRole(),
    ...modeManifests(options.beside),
  ];
}

/** Lets the command line of every user find out that other controllers own the sandboxes, and create clones as these expect. */
function modeManifests(beside: unknown): Manifest[] {
  return publicConfigMap(controllersMode.configMap, { [controllersMode.beside]: beside });
}

function controllerArgs(options: BesideInstallOptions<unknown, unknown>): unknown[] {
  return [
    "--beside",
    options.beside,
    "--leader-elect",
    ...clusterRangeFlags(options.clusterRanges),
    ...selectorFlags(options.namespaceSelector),
    ...quotaFlags(options.namespaceQuota),
  ];
}
