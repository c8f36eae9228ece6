import { RametError } from "../../base/errors.ts";

/** Annotations of OpenKruise Agents and ACS that Ramet reads or writes, and its own. */
export const annotations = {
  /** On a claimed Sandbox: a random UUID whose presence means "taken". */
  lock: "agents.kruise.io/lock",
  owner: "agents.kruise.io/owner",
  /** RFC 3339. */
  claimTimestamp: "agents.kruise.io/claim-timestamp",
  initRuntimeRequest: "agents.kruise.io/init-runtime-request",
  runtimeUrl: "agents.kruise.io/runtime-url",
  runtimeAccessToken: "agents.kruise.io/runtime-access-token",
  /** On a Checkpoint: the Sandbox that it was taken from. */
  sandboxId: "agents.kruise.io/sandbox-id",
  /** On a Checkpoint: the UID of the Pod that it was begun with. Names come again, UIDs do not. */
  podUid: "ramet.dev/pod-uid",
  /** On a NamedSnapshot: any text; another one than before asks for another try of a build that failed. */
  buildRequest: "ramet.dev/build-request",
  /**
   * On a NamedSnapshot: the digest of the inputs as whoever declares it knows them. It changes with what stands in another object, a
   * Secret say, of which the controller would else hear later.
   */
  wantedDigest: "ramet.dev/wanted-digest",
  /** On a NamedSnapshot, `"true"`: the sandbox of a build that failed stays for a look inside. */
  keepBuilder: "ramet.dev/keep-builder",
  /** On the Sandbox of a build: how many steps of the recipe were in it when it was made. */
  buildBaseSteps: "ramet.dev/build-base-steps",
  /** On a Checkpoint of a step or a version: the whole digest that its label is the beginning of. */
  stepDigest: "ramet.dev/step-digest",
  snapshotDigest: "ramet.dev/snapshot-digest",
  /** On a Checkpoint of a step: RFC 3339, since when the recipe of its named snapshot has not had the step. */
  unneededSince: "ramet.dev/unneeded-since",
  /** On a Sandbox that names a snapshot: the checkpoint id that the name stood for when the sandbox began. */
  resolvedCheckpoint: "ramet.dev/resolved-checkpoint",
  /** On a Sandbox: the checkpoint id or named snapshot to which it is to be rolled back in place. */
  rollbackTo: "ramet.dev/rollback-to",
  /** Beside it, any text; another one than before asks for the same rollback once more. */
  rollbackRequest: "ramet.dev/rollback-request",
  /** On a Sandbox: ports, with commas between them, that a gateway lets everybody reach. */
  publicPorts: "ramet.dev/public-ports",
  reservePausedSandboxDuration: "agents.kruise.io/reserve-paused-sandbox-duration",
  sandboxPriority: "agents.kruise.io/sandbox-priority",
  /** On a SandboxTemplate that a set wrote out, has no use for any more, and has younger ones of. */
  cleanupCandidate: "agents.kruise.io/cleanup-candidate",
  cleanupEnabled: "agents.kruise.io/cleanup-enabled",
  cleanupRetainOnFailure: "agents.kruise.io/cleanup-retain-on-failure",
  /** On a Pod, as a label too: `sandbox` or `external`. */
  createdBy: "agents.kruise.io/created-by",
  hashImmutablePart: "sandbox.agents.kruise.io/hash-immutable-part",
  csiVolumeConfig: "e2b.agents.kruise.io/csi-volume-config",
  /** ACS asks for it on the Pod template of a Sandbox that is to be paused or checkpointed; Ramet needs no leave. */
  acsPauseEnabled: "ops.alibabacloud.com/pause-enabled",
} as const;

/** Every spelling of "make this Sandbox a clone of that checkpoint", ours first. */
export const restoreFromAnnotations = [
  "ramet.dev/restore-from",
  "agents.kruise.io/restore-from",
  "checkpoint.alibabacloud.com/restore-from",
] as const;

export const labels = {
  sandboxPool: "agents.kruise.io/sandbox-pool",
  sandboxTemplate: "agents.kruise.io/sandbox-template",
  /** `"true"` or `"false"`. */
  sandboxClaimed: "agents.kruise.io/sandbox-claimed",
  claimName: "agents.kruise.io/claim-name",
  templateHash: "agents.kruise.io/template-hash",
  reservedFailedSandbox: "agents.kruise.io/reserved-failed-sandbox",
  /** On Pods and Checkpoints. */
  sandboxName: "agents.kruise.io/sandbox-name",
  allowInternetAccess: "agents.kruise.io/allow-internet-access",
  sandboxId: "agents.kruise.io/sandbox-id",
  /** On Checkpoints: the contents, sorted and joined by `-`. */
  checkpointType: "agents.kruise.io/checkpoint-type",
  checkpointId: "agents.kruise.io/checkpoint-id",
  createdBy: "agents.kruise.io/created-by",
  /** On Pods: the revision of the Sandbox's template. */
  podTemplateHash: "pod-template-hash",
  /**
   * Why Ramet made it. On Checkpoints: `pause` (goes with the resume), `version`, `step` or `source` of a named snapshot; on
   * Sandboxes: `build`.
   */
  purpose: "ramet.dev/purpose",
  /** On what belongs to a NamedSnapshot: its name. */
  snapshot: "ramet.dev/snapshot",
  snapshotUid: "ramet.dev/snapshot-uid",
  /** On Checkpoints: the beginning of the digest of a step after whose end they were taken. */
  stepDigest: "ramet.dev/step-digest",
  /** On Pods that run a cell: `"true"`. Nodes, policies and listings select on it. */
  cell: "ramet.dev/cell",
  /** On namespaces: `"true"` has the API server refuse `exec` and `attach` in all Pods there. */
  denyExec: "ramet.dev/deny-exec",
} as const;

export const finalizers = {
  sandbox: "agents.kruise.io/sandbox",
  checkpoint: "agents.kruise.io/checkpoint",
  namedSnapshot: "ramet.dev/named-snapshot",
} as const;

/** The `owner` of a sandbox that its set is about to delete. */
export const scaleDownOwner = "__manager_scale_down";

/** What `restoreFrom` reads of a Sandbox. */
export interface MaybeClone {
  metadata: { annotations?: Record<string, string> | undefined };
  spec: { template?: unknown };
}

/**
 * The checkpoint id or named snapshot that a Sandbox is to be a clone of, from its own annotations or its Pod template's.
 * @param template the Pod template that `spec.templateRef` resolved to, where there is one
 * @throws RametError `InvalidArgument` when two of them name different checkpoints
 */
export function restoreFrom(sandbox: MaybeClone, template: unknown = sandbox.spec.template): string | undefined {
  const places = [
    ["metadata.annotations", sandbox.metadata.annotations],
    ["spec.template.metadata.annotations", templateAnnotations(template)],
  ] as const;
  const found = places.flatMap(([place, values]) =>
    restoreFromAnnotations.flatMap((key) => {
      const value: unknown = values?.[key];
      return typeof value === "string" && value !== "" ? [{ where: `${place}[${key}]`, value }] : [];
    }),
  );
  const [first] = found;
  const other = found.find(({ value }) => value !== first?.value);
  if (first !== undefined && other !== undefined) {
    throw new RametError(
      "InvalidArgument",
      `The sandbox names two checkpoints to restore from: ${first.where} is ${first.value}, ${other.where} is ${other.value}`,
      { hint: "Keep one of the two annotations" },
    );
  }
  return first?.value;
}

/** The template is schemaless in the API, so anything may stand there. */
function templateAnnotations(template: unknown): Record<string, unknown> | undefined {
  return record(record(record(template)?.["metadata"])?.["annotations"]);
}

function record(value: unknown): Record<string, unknown> | undefined {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : undefined;
}
