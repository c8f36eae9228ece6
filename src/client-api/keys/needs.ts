import { group, rametGroup } from "../../api/schema/kind.ts";
import type { Need } from "./callers.ts";

/** The rights that the operations of clients need, in the words of RBAC. */
const onSandboxes = (verb: string): Need => ({ group, resource: "sandboxes", verb });
const onSecrets = (verb: string): Need => ({ group: rametGroup, resource: "clientsecrets", verb });
const onCheckpoints = (verb: string): Need => ({ group, resource: "checkpoints", verb });
const onSnapshots = (verb: string): Need => ({ group: rametGroup, resource: "namedsnapshots", verb });
/** Sets and templates. */
const onSources = (verb: string): Need[] => [
  { group, resource: "sandboxtemplates", verb },
  { group, resource: "sandboxsets", verb },
];

export const needs = {
  create: [onSandboxes("create")],
  read: [onSandboxes("get")],
  list: [onSandboxes("list")],
  change: [onSandboxes("patch")],
  kill: [onSandboxes("delete")],
  /** The access token lets a client run commands. */
  enter: [{ group, resource: "sandboxes", subresource: "exec", verb: "create" }],
  capture: [onCheckpoints("create")],
  listSnapshots: [onCheckpoints("list")],
  deleteCheckpoint: [onCheckpoints("delete")],
  /** The name of a client can be that of a checkpoint or of a named snapshot. */
  deleteSnapshot: [onCheckpoints("delete"), onSnapshots("delete")],
  /** The name can have versions, and gets another one. */
  nameSnapshot: [onSnapshots("create"), onSnapshots("patch")],
  /** A build runs commands in a sandbox. */
  build: [onSnapshots("create"), onSnapshots("patch"), onSandboxes("create")],
  readTemplate: [onSnapshots("get")],
  listTemplates: [onSnapshots("list")],
  tagTemplate: [onSnapshots("patch")],
  listSources: onSources("list"),
  readSource: onSources("get"),
  createSecret: [onSecrets("create")],
  readSecret: [onSecrets("get")],
  listSecrets: [onSecrets("list")],
  changeSecret: [onSecrets("patch")],
  deleteSecret: [onSecrets("delete")],
} as const satisfies Record<string, readonly Need[]>;
