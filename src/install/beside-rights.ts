import { otherControllerRights, sharedRights, systemRights } from "./controller-rights.ts";
import { type Right, type Rights, rights } from "./rights.ts";

/** Permissions in all namespaces of controllers that work beside others. They create no Pods and write no status of theirs. */
const besideRights: readonly Right[] = [
  ...rights("served", {
    "sandboxes.agents.kruise.io: get list watch create delete": "create and delete the sandboxes of builds",
    "checkpoints.agents.kruise.io: get list watch create patch delete":
      "request checkpoints of steps and versions, and delete unused and expired checkpoints",
    "sandboxtemplates.agents.kruise.io: get list watch create delete":
      "keep the template of each checkpoint, and delete unused revisions of sets",
    "sandboxsets.agents.kruise.io: get list watch patch":
      "write the checkpoint of a named snapshot into the sets that follow it",
    "sandboxclaims.agents.kruise.io: get list watch": "find what claims refer to",
    "namedsnapshots.ramet.dev/status: patch": "write the status of named snapshots",
    "secrets: get": "copy files from the Secrets that a recipe names",
    "namespaces: get list watch create":
      "read the quotas of namespaces and select namespaces, and create ramet-system if it is missing",
  }),
  ...sharedRights,
  ...otherControllerRights("report whether the other controllers run"),
];

/** Permissions in `ramet-system`: the lease only, as there are no keys. */
const besideSystemRights: readonly Right[] = systemRights.filter(({ resources }) => resources?.includes("leases"));

export const rightsBeside: Rights = { everywhere: besideRights, inSystem: besideSystemRights };
