import { otherControllerRights, sharedRights, systemRights } from "./controller-rights.ts";
import type { Right, Rights } from "./rights.ts";

const kruise = "agents.kruise.io";
const follow = ["get", "list", "watch"];

/** Permissions in all namespaces of controllers that work beside others. They create no Pods and write no status of theirs. */
const besideRights: readonly Right[] = [
  {
    why: "create and delete the sandboxes of builds",
    apiGroups: [kruise],
    resources: ["sandboxes"],
    verbs: [...follow, "create", "delete"],
  },
  {
    why: "request checkpoints of steps and versions, and delete unused and expired checkpoints",
    apiGroups: [kruise],
    resources: ["checkpoints"],
    verbs: [...follow, "create", "patch", "delete"],
  },
  {
    why: "keep the template of each checkpoint, and delete unused revisions of sets",
    apiGroups: [kruise],
    resources: ["sandboxtemplates"],
    verbs: [...follow, "create", "delete"],
  },
  {
    why: "write the checkpoint of a named snapshot into the sets that follow it",
    apiGroups: [kruise],
    resources: ["sandboxsets"],
    verbs: [...follow, "patch"],
  },
  { why: "find what claims refer to", apiGroups: [kruise], resources: ["sandboxclaims"], verbs: follow },
  sharedRights.namedSnapshots,
  {
    why: "write the status of named snapshots",
    apiGroups: ["ramet.dev"],
    resources: ["namedsnapshots/status"],
    verbs: ["patch"],
  },
  sharedRights.recipeConfigMaps,
  { why: "copy files from the Secrets that a recipe names", apiGroups: [""], resources: ["secrets"], verbs: ["get"] },
  {
    why: "read the quotas of namespaces and select namespaces, and create ramet-system if it is missing",
    apiGroups: [""],
    resources: ["namespaces"],
    verbs: [...follow, "create"],
  },
  sharedRights.recordEvents,
  ...otherControllerRights("report whether the other controllers run"),
];

/** Permissions in `ramet-system`: the lease only, as there are no keys. */
const besideSystemRights: readonly Right[] = systemRights.filter(({ resources }) => resources?.includes("leases"));

/** Permissions of controllers that work beside others. */
export const rightsBeside: Rights = { everywhere: besideRights, inSystem: besideSystemRights };
