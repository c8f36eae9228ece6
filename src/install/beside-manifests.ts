import { controllersMode } from "../api/names/system-names.ts";
import { rametGroup } from "../api/schema/kind.ts";
import { apiKeyPolicy } from "./api-key-policy.ts";
import { rightsBeside } from "./beside-rights.ts";
import { clientRole } from "./client-role.ts";
import { controllerManifests } from "./controller-manifests.ts";
import { type InstallOptions, parseFlags } from "./install-options.ts";
import type { Manifest } from "./manifest.ts";
import { lastingManifests } from "./manifests.ts";
import { publicConfigMap } from "./public-config-map.ts";
import { restoreFromPolicy } from "./restore-from-policy.ts";
import { keysOf, serverArguments } from "./setting-values.ts";
import { besideSettings, type SettingKey } from "./settings.ts";
import { recipePolicies } from "./template-policies.ts";

/** The settings of an installation beside other controllers. */
export type BesideInstallOptions<Text = string, Count = number> = Pick<
  InstallOptions<Text, Count>,
  | "annotations"
  | "namespaceRequirements"
  | "namespaceQuota"
  | Extract<keyof InstallOptions, (typeof besideSettings)[number]>
> & { beside: Text };

/** Validates the flags of `ramet manifests --beside`. @throws RametError `InvalidArgument` */
export function parseBesideOptions(given: BesideInstallOptions): BesideInstallOptions {
  return parseFlags(besideKeys(), given) as BesideInstallOptions;
}

/** The settings of such an installation. */
export function besideKeys() {
  const used = new Set<SettingKey>(besideSettings);
  return keysOf("manifests").filter((key) => used.has(key));
}

/** The manifests that must outlive the controllers: of the CRDs, only Ramet's own. */
export function besideLastingManifests(options: Pick<BesideInstallOptions, "namespace">): Manifest[] {
  return lastingManifests(options, [rametGroup]);
}

/** The controllers and their permissions. Templates of sandboxes are subject to the policies of their own controllers. */
export function besideServerManifests(options: BesideInstallOptions<unknown, unknown>): Manifest[] {
  return [
    ...controllerManifests(options, {
      rights: rightsBeside,
      args: serverArguments("controller", { ...options, leaderElect: true }),
    }),
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
