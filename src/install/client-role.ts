import { clientRoleName } from "../api/names/system-names.ts";
import { group, rametGroup } from "../api/schema/kind.ts";
import type { Manifest } from "./manifest.ts";
import { type Right, ruleOf } from "./rights.ts";

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

export const clientRights: readonly Right[] = [
  {
    why: "create, pause, resume, extend and end sandboxes",
    apiGroups: [group],
    resources: ["sandboxes"],
    verbs: ["get", "list", "create", "patch", "delete"],
  },
  {
    why: "run commands in sandboxes and reach their ports",
    apiGroups: [group],
    resources: ["sandboxes/exec", "sandboxes/proxy"],
    verbs: ["create"],
  },
  {
    why: "snapshot sandboxes",
    apiGroups: [group],
    resources: ["checkpoints"],
    verbs: ["get", "list", "create", "delete"],
  },
  {
    why: "name snapshots and build templates",
    apiGroups: [rametGroup],
    resources: ["namedsnapshots"],
    verbs: ["get", "list", "create", "patch", "delete"],
  },
  {
    why: "store secrets, and have them added to requests of sandboxes",
    apiGroups: [rametGroup],
    resources: ["clientsecrets"],
    verbs: ["get", "list", "create", "patch", "delete"],
  },
  {
    why: "find what sandboxes can be created from",
    apiGroups: [group],
    resources: ["sandboxsets", "sandboxtemplates"],
    verbs: ["get", "list"],
  },
];
