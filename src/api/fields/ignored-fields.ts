import { injectsEnvd } from "../pod/agent-runtime.ts";
import { Container } from "../schema/pod-template.ts";
import { annotations } from "../names/labels.ts";
import { apiVersion } from "../schema/kind.ts";

/** The kinds that accept fields without effect. Ramet's own kinds have none. */
export const acceptingKinds = ["Sandbox", "SandboxSet", "SandboxTemplate", "SandboxClaim", "Checkpoint"] as const;
export type AcceptingKind = (typeof acceptingKinds)[number];

export function isAccepting(kind: string): kind is AcceptingKind {
  return (acceptingKinds as readonly string[]).includes(kind);
}

export const ignoredReasons = ["NotSupported", "ReplacedByGuest", "TemplateChanged", "SeveralReasons"] as const;
export type IgnoredReason = (typeof ignoredReasons)[number];

/** A field that is accepted, because OpenKruise Agents, ACS or Kubernetes have it, and that has no effect. */
export interface IgnoredField {
  kinds: readonly AcceptingKind[];
  /** `x[]` is each item of a list, `x[y]` the entry y of a map, and `x.*` each field of an object. */
  path: string;
  /** The values without effect. @default every value that requests something */
  only?: { inWords: string; holds: (value: unknown, key: string) => boolean };
  /** Whether the report names the value, which then is never a secret. */
  namesValue?: true;
  reason: Exclude<IgnoredReason, "SeveralReasons">;
  /** Why it has no effect, and what to do instead. */
  why: string;
}

const sandboxes = ["Sandbox", "SandboxSet", "SandboxTemplate"] as const;
const noRecycling = "Ramet does not reuse sandboxes: a claimed sandbox is deleted, and its set starts another";
const noUpgrade = "Ramet does not upgrade running sandboxes; create another sandbox from the changed template";
const guestInstead = "every sandbox has Ramet's guest, which serves the interface of envd";
const ownGateway = "Ramet's gateways find sandboxes and their tokens without it";
const keptContents: readonly unknown[] = ["ip", "memory", "filesystem", "volumes", "podInfo"];
/** The fields of the main container that the cell honours or refuses (cell-container.ts, container-spec.ts). */
const containerFields: readonly string[] = Object.keys(Container.shape);
const securityFields = ["runAsUser", "runAsGroup", "readOnlyRootFilesystem"];
const hooks = ["postStart", "preStop"];
/** Its value `false` requests something. */
const noNewPrivileges = "allowPrivilegeEscalation";
const onlyOthers = "only the Pod's other containers get it";
const notInSandbox = "the sandbox runs in gVisor under Ramet's cell, which does not pass this on";

/** All fields without effect. docs/reference/ignored-fields.md and the condition `FieldsIgnored` are made from it. */
export const ignoredFields: readonly IgnoredField[] = [
  {
    kinds: [...sandboxes, "SandboxClaim"],
    path: "spec.runtimes[].name",
    only: { inWords: "agent-runtime", holds: (name) => name === "agent-runtime" },
    namesValue: true,
    reason: "ReplacedByGuest",
    why: guestInstead,
  },
  {
    kinds: [...sandboxes, "SandboxClaim"],
    path: "spec.runtimes[].name",
    only: { inWords: "others, such as csi and traffic-proxy", holds: (name) => name !== "agent-runtime" },
    namesValue: true,
    reason: "NotSupported",
    why: "Ramet adds no sidecars; put the containers and volumes that you need into the template",
  },
  { kinds: ["Sandbox"], path: "spec.upgradePolicy.type", reason: "NotSupported", why: noUpgrade },
  { kinds: ["Sandbox"], path: "spec.lifecycle", reason: "NotSupported", why: noUpgrade },
  {
    kinds: sandboxes,
    path: "spec.pauseStrategy.hibernateStrategy.type",
    only: { inWords: "others than Snapshot", holds: (type) => type !== "Snapshot" && type !== "" },
    namesValue: true,
    reason: "NotSupported",
    why: "Hibernate always takes a checkpoint",
  },
  {
    kinds: [...sandboxes, "Checkpoint"],
    path: "spec.persistentContents[]",
    only: { inWords: "ip", holds: (word) => word === "ip" },
    namesValue: true,
    reason: "NotSupported",
    why: "the Pod of a resumed sandbox has another address; inside the sandbox the address never changes",
  },
  {
    kinds: [...sandboxes, "Checkpoint"],
    path: "spec.persistentContents[]",
    only: {
      inWords: "others than ip, memory, filesystem, volumes and podInfo",
      holds: (word) => !keptContents.includes(word),
    },
    namesValue: true,
    reason: "NotSupported",
    why: "only memory, filesystem and volumes are captured; the description of the Pod (podInfo) is always kept",
  },
  {
    kinds: ["Sandbox", "SandboxSet"],
    path: "spec.templateRef.kind",
    only: { inWords: "others than SandboxTemplate", holds: (kind) => kind !== "SandboxTemplate" && kind !== "" },
    namesValue: true,
    reason: "NotSupported",
    why: "the name is always that of a SandboxTemplate",
  },
  {
    kinds: ["Sandbox", "SandboxSet"],
    path: "spec.templateRef.apiVersion",
    only: { inWords: `others than ${apiVersion}`, holds: (text) => text !== apiVersion && text !== "" },
    namesValue: true,
    reason: "NotSupported",
    why: `the SandboxTemplate is always of ${apiVersion}`,
  },
  ...onSandboxes([annotations.cleanupEnabled, annotations.cleanup, annotations.cleanupRetainOnFailure], noRecycling),
  ...onSandboxes([annotations.upgradeResumeTrigger], noUpgrade),
  ...onSandboxes(
    [annotations.csiVolumeConfig],
    "the mounts of a sandbox are fixed when it starts; name the volumes in its template",
  ),
  ...onSandboxes(
    [annotations.runtimeUrl, annotations.runtimeAccessToken, annotations.envdUrl, annotations.envdAccessToken],
    ownGateway,
  ),
  ...onSandboxes(
    [annotations.enableJwtAuth, annotations.agentName],
    "Ramet has no identity provider; its gateways authorize requests by Kubernetes' RBAC",
  ),
  {
    kinds: sandboxes,
    path: `spec.template.metadata.annotations[${annotations.acsPauseEnabled}]`,
    only: { inWords: 'others than "true"', holds: (value) => value !== "true" },
    reason: "NotSupported",
    why: "every sandbox can be paused",
  },
  {
    kinds: sandboxes,
    path: "spec.template.spec.initContainers[]",
    only: {
      inWords: "sidecars of the image agent-runtime, with the hook that starts what they inject",
      holds: (container) => typeof container === "object" && container !== null && injectsEnvd({ ...container }),
    },
    reason: "ReplacedByGuest",
    why: guestInstead,
  },
  ...inTemplates([
    {
      path: "spec.template.spec.containers[0].*",
      only: {
        inWords: `other fields than ${containerFields.join(", ")}`,
        holds: (value, field) => value !== false && !containerFields.includes(field),
      },
      why: notInSandbox,
    },
    {
      path: "spec.template.spec.containers[0].securityContext.*",
      only: {
        inWords: `other fields than ${securityFields.join(", ")}`,
        holds: (value, field) => !securityFields.includes(field) && (value !== false || field === noNewPrivileges),
      },
      why: "gVisor isolates the sandbox, and its processes have the default capabilities of a container, in gVisor only",
    },
    {
      path: "spec.template.spec.containers[0].lifecycle.*",
      only: { inWords: `other fields than ${hooks.join(", ")}`, holds: (_, field) => !hooks.includes(field) },
      why: notInSandbox,
    },
    {
      path: "spec.template.spec.containers[0].ports[].protocol",
      only: { inWords: "others than TCP", holds: (protocol) => protocol !== "TCP" },
      why: "only TCP connections reach a sandbox",
    },
    {
      path: "spec.template.spec.restartPolicy",
      only: { inWords: "others than Never", holds: (policy) => policy !== "Never" },
      why: "a sandbox that has ended is not restarted",
    },
    {
      path: "spec.template.spec.automountServiceAccountToken",
      only: { inWords: "true", holds: (value) => value === true },
      why: "no sandbox gets the token of a service account",
    },
    { path: "spec.template.spec.hostname", why: "the host name of a sandbox is its name" },
    { path: "spec.template.spec.hostAliases", why: `${onlyOthers}; write /etc/hosts in the image` },
    { path: "spec.template.spec.dnsConfig.searches", why: `${onlyOthers}; use full names in the sandbox` },
    { path: "spec.template.spec.dnsConfig.options", why: onlyOthers },
    {
      path: "spec.template.spec.enableServiceLinks",
      only: { inWords: "true", holds: (value) => value === true },
      why: onlyOthers,
    },
    { path: "spec.template.spec.securityContext.supplementalGroups", why: notInSandbox },
    { path: "spec.template.spec.securityContext.sysctls", why: notInSandbox },
    {
      path: "spec.template.spec.securityContext.runAsNonRoot",
      only: { inWords: "true", holds: (value) => value === true },
      why: "only the Pod's other containers are checked; set runAsUser",
    },
    {
      path: "spec.template.spec.shareProcessNamespace",
      only: { inWords: "true", holds: (value) => value === true },
      why: "the processes of a sandbox are visible only inside it",
    },
  ]),
];

/** Reported by what the controllers see, not by the object alone. */
export const staleTemplate = {
  reason: "TemplateChanged",
  why: "the Pod was created from an earlier version, of which only egress rules change; create another sandbox from the changed one",
} as const;

/** Reported for a set whose template has a pause strategy, as in OpenKruise Agents. */
export const strategyOfTemplate = {
  reason: "NotSupported",
  why: "the sandboxes of a set have the set's pauseStrategy",
} as const;

/** Reported for a request that `agents.kruise.io/init-runtime-request` contains beside variables. */
export const requestFields = {
  reason: "ReplacedByGuest",
  why: "only variables are read; the token of each guest is derived from a key of the cluster",
} as const;

/** On a Sandbox, or on the Pod template of one, from which a set copies some of them. */
function onSandboxes(keys: readonly string[], why: string): IgnoredField[] {
  return keys.flatMap((key): IgnoredField[] => [
    { kinds: ["Sandbox"], path: `metadata.annotations[${key}]`, reason: "NotSupported", why },
    { kinds: sandboxes, path: `spec.template.metadata.annotations[${key}]`, reason: "NotSupported", why },
  ]);
}

function inTemplates(fields: readonly Pick<IgnoredField, "path" | "only" | "why">[]): IgnoredField[] {
  return fields.map((field) => ({ kinds: sandboxes, reason: "NotSupported", ...field }));
}
