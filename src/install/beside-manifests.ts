import { controllersMode } from "../api/names/system-names.ts";
import { rametGroup, group } from "../api/schema/kind.ts";
import { apiKeyPolicy } from "./admission-policies.ts";
import { rightsBeside } from "./controller-rights.ts";
import { clientRole } from "./http-server-rights.ts";
import { controllerManifests } from "./controller-manifests.ts";
import { type InstallOptions, parseFlags } from "./install-options.ts";
import type { Manifest } from "./manifest.ts";
import { monitoringManifests } from "./monitoring-manifests.ts";
import { publicConfigMap } from "./rights.ts";
import { lastingManifests } from "./manifests.ts";
import { keysOf, serverArguments, type Words, wordsIn } from "./setting-values.ts";
import { besideSettings, type SettingKey } from "./settings.ts";
import { recipePolicies } from "./template-policies.ts";
import { restoreFromAnnotations } from "../api/names/labels.ts";
import { policyOf, type PolicyScope, selectedNamespaces } from "./admission-policy.ts";

/** The settings of an installation beside other controllers. */
export type BesideInstallOptions<Text = string, Count = number> = Pick<
  InstallOptions<Text, Count>,
  | "annotations"
  | "namespaceRequirements"
  | "namespaceQuota"
  | Extract<keyof InstallOptions, Words<(typeof besideSettings)[number]>>
> & { beside: Text };

/** Validates the flags of `ramet manifests --beside`. @throws RametError `InvalidArgument` */
export function parseBesideOptions(given: BesideInstallOptions): BesideInstallOptions {
  return parseFlags(besideKeys(), given) as BesideInstallOptions;
}

export function besideKeys() {
  const used = new Set<SettingKey>(wordsIn(besideSettings));
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
    ...monitoringManifests(options),
  ];
}

/** Lets the command line of every user find out that other controllers own the sandboxes, and create clones as these expect. */
function modeManifests(beside: unknown): Manifest[] {
  return publicConfigMap(controllersMode.configMap, { [controllersMode.beside]: beside });
}

const [own, theirs] = restoreFromAnnotations;

/**
 * Other controllers do not know Ramet's annotation for clones, and would start an ordinary sandbox without an error. The sandboxes
 * of a set have an owner, and the checkpoint id too if the set follows a named snapshot.
 */
function restoreFromPolicy(scope: PolicyScope): Manifest[] {
  const asks = `(${annotation("object", own)} || ${annotation("object.spec.?template", own)})`;
  return policyOf("ramet-restore-from", {
    selectors: selectedNamespaces(scope),
    apiGroup: group,
    rule: "CREATE sandboxes",
    conditions: {
      "of-a-user": "object.metadata.?ownerReferences.orValue([]).size() == 0",
      "asks-for-a-clone": asks,
    },
    requires: {
      [annotation("object", theirs)]:
        `The controllers of this cluster ignore the annotation ${own}: create the clone with \`ramet sandbox create --from\`, or use ${theirs} with a checkpoint id`,
    },
  });
}

function annotation(object: string, key: string): string {
  return `${object}.?metadata.?annotations[?"${key}"].hasValue()`;
}
