import { clientRoleName } from "../api/names/system-names.ts";
import type { Manifest } from "./manifest.ts";
import { type Right, rights, ruleOf } from "./rights.ts";

/**
 * Returns the ClusterRole with what the client API offers. Nobody has it: bind it to the service accounts of API keys, in their
 * namespaces.
 */
export function clientRole(): Manifest {
  return {
    apiVersion: "rbac.authorization.k8s.io/v1",
    kind: "ClusterRole",
    metadata: { name: clientRoleName },
    rules: clientRights.map(ruleOf),
  };
}

export const clientRights: readonly Right[] = rights("served", {
  "sandboxes.agents.kruise.io: get list create patch delete": "create, pause, resume, extend and end sandboxes",
  "sandboxes.agents.kruise.io/exec sandboxes.agents.kruise.io/proxy: create":
    "run commands in sandboxes and reach their ports",
  "checkpoints.agents.kruise.io: get list create delete": "snapshot sandboxes",
  "sandboxsets.agents.kruise.io sandboxtemplates.agents.kruise.io: get list": "find what sandboxes can be created from",
  "namedsnapshots.ramet.dev: get list create patch delete": "name snapshots and build templates",
  "clientsecrets.ramet.dev: get list create patch delete":
    "store secrets, and have them added to requests of sandboxes",
});
