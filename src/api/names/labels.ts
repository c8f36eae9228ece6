import { parsedJson } from "../../base/tolerant-parse.ts";
import type * as z from "zod";
import { RametError } from "../../base/errors.ts";

/** Annotations of OpenKruise Agents, ACS and Ramet that Ramet reads or writes. */
export const annotations = {
  /** On a claimed Sandbox: a UUID. Its presence means that the Sandbox is claimed. */
  lock: "agents.kruise.io/lock",
  owner: "agents.kruise.io/owner",
  /** RFC 3339. */
  claimTimestamp: "agents.kruise.io/claim-timestamp",
  initRuntimeRequest: "agents.kruise.io/init-runtime-request",
  /** On a Sandbox: an `init-runtime-request` that only the controllers can read (decision 19). */
  sealedInitRequest: "ramet.dev/sealed-init-request",
  runtimeUrl: "agents.kruise.io/runtime-url",
  runtimeAccessToken: "agents.kruise.io/runtime-access-token",
  /** On a Checkpoint: the Sandbox that it was captured from. */
  sandboxId: "agents.kruise.io/sandbox-id",
  /** On a Checkpoint, `"true"`: it waits while another one of its sandbox is captured. Without it, it fails then. */
  waitsTurn: "ramet.dev/waits-turn",
  /** On a Checkpoint that a client of the client API requested: the name that the client gave it, and the request's `lock`. */
  clientName: "ramet.dev/client-name",
  /** On a Checkpoint of files, `"true"`: they are captured as a layer, which the sandboxes of a node share. */
  asLayer: "ramet.dev/as-layer",
  /** On a Checkpoint, RFC 3339: when it is deleted, after its capture has ended. It can be changed. */
  expiresAt: "ramet.dev/expires-at",
  /** On a Checkpoint: the name that a client gave it. It is no object name, and others can have the same. */
  displayName: "ramet.dev/display-name",
  /** On any object, as Kubernetes defines it: what it is for. */
  description: "kubernetes.io/description",
  /** On a Checkpoint of one volume: the name and the class of its VolumeSnapshot, as JSON (volume-snapshot-request.ts). */
  volumeSnapshot: "ramet.dev/volume-snapshot",
  /** On a Checkpoint: the UID of the captured Pod. Names are reused, UIDs are not. */
  podUid: "ramet.dev/pod-uid",
  /** On a NamedSnapshot: any text; a change requests another attempt of a failed build. */
  buildRequest: "ramet.dev/build-request",
  /**
   * On a NamedSnapshot: the digest of the inputs as its declaring program knows them. It changes with the content of other objects,
   * such as a Secret, so that the controller reads them immediately.
   */
  wantedDigest: "ramet.dev/wanted-digest",
  /** On a NamedSnapshot, `"true"`: the sandbox of a failed build is kept for inspection. */
  keepBuilder: "ramet.dev/keep-builder",
  /** On a NamedSnapshot: its versions by tag, as JSON (snapshot-tags.ts). */
  tags: "ramet.dev/tags",
  /** On a NamedSnapshot that clients build: their latest builds, as JSON (client-builds.ts). */
  clientBuilds: "ramet.dev/client-builds",
  /** On such a NamedSnapshot: the login of its image's registry, sealed for the controllers, until they have made a Secret of it. */
  registryLogin: "ramet.dev/registry-login",
  /** On the Checkpoint of an uploaded directory tree: the digest that identifies the tree, and the SHA-256 of its archive. */
  tree: "ramet.dev/tree",
  treeArchive: "ramet.dev/tree-archive",
  /** On the Sandbox of a build: the number of recipe steps that its initial state contains. */
  buildBaseSteps: "ramet.dev/build-base-steps",
  /** On a Checkpoint of a step or a version: the whole digest, which its label holds shortened. */
  stepDigest: "ramet.dev/step-digest",
  snapshotDigest: "ramet.dev/snapshot-digest",
  /** On the Checkpoint of a version: its steps, as JSON (diff-versions.ts). */
  recipe: "ramet.dev/recipe",
  /** On a Checkpoint of a step: when the step was removed from the recipe of its named snapshot, as RFC 3339. */
  unneededSince: "ramet.dev/unneeded-since",
  /** On a Sandbox that names a snapshot: the checkpoint id to which the name was resolved when the sandbox started. */
  resolvedCheckpoint: "ramet.dev/resolved-checkpoint",
  /** On a Sandbox: the checkpoint id or named snapshot to restore in place. */
  rollbackTo: "ramet.dev/rollback-to",
  /**
   * On the Checkpoint that holds a sandbox that was created paused and has not had a Pod: the id of the checkpoint that the sandbox
   * is restored from.
   */
  heldFrom: "ramet.dev/held-from",
  /**
   * On the Checkpoint that holds a paused sandbox after a rollback: the digest of the rollback's request. On an automatic one: that of
   * the sandbox's last rollback before it.
   */
  rollbackDigest: "ramet.dev/rollback-digest",
  /** On a Sandbox: any text; a change requests the same rollback once more. */
  rollbackRequest: "ramet.dev/rollback-request",
  /**
   * On a Sandbox, a Pod template, a SandboxClaim or a NamedSnapshot, `Empty` or `Shared`: the volumes of a sandbox that is restored
   * from a checkpoint without the data of its source's PersistentVolumeClaims.
   */
  volumesOnRestore: "ramet.dev/volumes-on-restore",
  /**
   * On a VolumeSnapshot of a Checkpoint: the volume that it captures, as JSON (captured-volume.ts of the backend `csi`); on a
   * VolumeGroupSnapshot: its volumes (group-record.ts).
   */
  capturedVolume: "ramet.dev/captured-volume",
  /**
   * On a VolumeSnapshotContent that was imported, `"true"`: its data is deleted with the last content of the cluster that has it. A
   * captured content needs no such annotation.
   */
  ownsData: "ramet.dev/owns-data",
  /** On a VolumeSnapshotContent, `"true"`: its checkpoint is being removed, so it no longer keeps the data of others. */
  releasing: "ramet.dev/releasing",
  /** On an object of snapshots: any text; a change makes its controller look at it again. */
  retry: "ramet.dev/retry",
  /** On a clone: the claims that its volumes mount instead of those of its template, as JSON by the name of the volume. */
  volumeClaims: "ramet.dev/volume-claims",
  /** On a Namespace, a Pod template or a Sandbox: egress rules as JSON or YAML (docs/reference/network.md). */
  egress: "ramet.dev/egress",
  /**
   * On a Pod template or a Sandbox: the headers that are added to requests of the sandbox, as JSON or YAML
   * (docs/tasks/credentials.md).
   */
  credentials: "ramet.dev/credentials",
  /** On a Sandbox that a client of the client API created: the same, readable only by the controllers. */
  sealedCredentials: "ramet.dev/sealed-credentials",
  /** On a Pod that runs a cell: the digest of the egress policy with which the cell starts. */
  egressDigest: "ramet.dev/egress-digest",
  /** On a Pod template, `memory`: the files that the sandbox writes are in its memory instead of on disk. */
  writableLayer: "ramet.dev/writable-layer",
  /** On a Namespace, by an administrator: the size of the writable layer of templates without a limit of ephemeral storage. */
  writableLayerSize: "ramet.dev/writable-layer-size",
  /** On a Namespace, a set, a Pod template or a Pod that runs a cell: what becomes of a sandbox whose Pod others end (disruption.ts). */
  onDisruption: "ramet.dev/on-disruption",
  /** On a Node, `false`: its sandboxes stay until their Pods are ended, even if the node is cordoned or marked (state/node.ts). */
  moveSandboxes: "ramet.dev/move-sandboxes",
  /**
   * On the same objects, a duration such as `10m` or `none`: how often a running sandbox is captured, to continue from there if its Pod
   * is lost. The other one, not on a Namespace: how many of these captures are kept.
   */
  checkpointEvery: "ramet.dev/checkpoint-every",
  checkpointsKept: "ramet.dev/checkpoints-kept",
  /** On a Pod template, `none`: the Pod has exactly the template's resources, and the cell takes its part from the sandbox. */
  cellOverhead: "ramet.dev/cell-overhead",
  /**
   * On a Pod template, by the program that resolved its image; on a Pod and a Checkpoint, by the controllers: the image as JSON
   * (resolved-image.ts). The tag is resolved once.
   */
  image: "ramet.dev/image",
  /** On a Pod that runs a cell: why its image is not resolved, as JSON with `code` and `message`. */
  imageProblem: "ramet.dev/image-problem",
  /** On a Sandbox: comma-separated ports that a gateway proxies without authorization. */
  publicPorts: "ramet.dev/public-ports",
  /** On a Sandbox that a client of the client API created: the client's metadata, as JSON of texts by key. */
  clientMetadata: "ramet.dev/client-metadata",
  /** The same: the name from which it was created, as the client wrote it. */
  clientTemplate: "ramet.dev/client-template",
  /** The same: the name of the sandbox that it was cloned from. */
  clonedFrom: "ramet.dev/cloned-from",
  /** The same: how long it runs after its start and after each resume, as a duration such as `8h`. */
  clientLife: "ramet.dev/client-life",
  /** The same: how long it exists, as a duration. Its `shutdownTime` then deletes it also while it is paused. */
  clientHardLife: "ramet.dev/client-hard-life",
  /** The same: the ports that the client has forwarded, as JSON. */
  clientPorts: "ramet.dev/client-ports",
  /** The same: its services, which are ports with a name, as JSON. */
  clientServices: "ramet.dev/client-services",
  /** The same: the entrypoint of its agent, and how that was installed, as JSON. */
  clientAgent: "ramet.dev/client-agent",
  /** The same: what its network settings show to clients and no other annotation has, as JSON. */
  clientNetwork: "ramet.dev/client-network",
  /** The same: the tokens of a workload that its headers can name, as JSON by name. */
  clientTokens: "ramet.dev/client-tokens",
  /** The same, `kill`, `pause` or `pauseFiles`, which keeps the files only: what happens when its time is over. */
  onTimeout: "ramet.dev/on-timeout",
  /** On a Sandbox, a duration such as `300s`: traffic resumes it when it is paused, and it then runs for that time. */
  autoResume: "ramet.dev/auto-resume",
  /**
   * On a Sandbox that was paused without its memory for once: its `persistentContents` from before, as JSON. The client API restores
   * them when it resumes the sandbox.
   */
  contentsAfterPause: "ramet.dev/contents-after-pause",
  /** On a Sandbox: comma-separated ports whose programs speak HTTP/2 without TLS. gRPC needs no entry. */
  http2Ports: "ramet.dev/http2-ports",
  /** On a Sandbox: comma-separated ports whose programs serve HTTPS. Their certificates are not verified. */
  httpsPorts: "ramet.dev/https-ports",
  /** On a Sandbox: the header `Host` of requests to its ports, in which `${PORT}` is the port. */
  requestHost: "ramet.dev/request-host",
  /** On a namespace, by an administrator: comma-separated names of restricted fields that templates there may use. */
  allowInTemplates: "ramet.dev/allow-in-templates",
  /** On a namespace, by an administrator: its limits (docs/reference/quotas.md). */
  quota: "ramet.dev/quota",
  /** On a namespace, by an administrator: the Secret in `ramet-system` with the key for its checkpoints, or `none`. */
  encryptionSecret: "ramet.dev/encryption-secret",
  reservePausedSandboxDuration: "agents.kruise.io/reserve-paused-sandbox-duration",
  sandboxPriority: "agents.kruise.io/sandbox-priority",
  /** On a SandboxTemplate of an old revision that its set no longer needs. */
  cleanupCandidate: "agents.kruise.io/cleanup-candidate",
  /** Annotations of OpenKruise Agents' reuse of sandboxes, which Ramet does not have. */
  cleanup: "agents.kruise.io/cleanup",
  cleanupEnabled: "agents.kruise.io/cleanup-enabled",
  cleanupRetainOnFailure: "agents.kruise.io/cleanup-retain-on-failure",
  /** On a Pod, as a label too: `sandbox` or `external`. */
  createdBy: "agents.kruise.io/created-by",
  upgradeResumeTrigger: "agents.kruise.io/upgrade-resume-trigger",
  csiVolumeConfig: "e2b.agents.kruise.io/csi-volume-config",
  envdUrl: "e2b.agents.kruise.io/envd-url",
  envdAccessToken: "e2b.agents.kruise.io/envd-access-token",
  /** Annotations of OpenKruise Agents' identity provider. */
  enableJwtAuth: "security.agents.kruise.io/enable-jwt-auth",
  agentName: "security.agents.kruise.io/agent-name",
  /** ACS requires it on the Pod template of a Sandbox that is paused or checkpointed; Ramet does not. */
  acsPauseEnabled: "ops.alibabacloud.com/pause-enabled",
} as const;

/** The annotations that make a Sandbox a clone of a checkpoint, Ramet's own first. */
export const restoreFromAnnotations = [
  "ramet.dev/restore-from",
  "agents.kruise.io/restore-from",
  "checkpoint.alibabacloud.com/restore-from",
] as const;

/** The annotations with what a Sandbox was created from: as it was requested, and the checkpoint that was then found. */
export const originAnnotations = [...restoreFromAnnotations, annotations.resolvedCheckpoint] as const;

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
  /** On a Sandbox or a Pod template, as an annotation too: `"false"` denies all egress. */
  allowInternetAccess: "agents.kruise.io/allow-internet-access",
  /** On Checkpoints that a client of the client API created, and on NamedSnapshots of them: the UID of the captured Sandbox. */
  sourceUid: "ramet.dev/source-uid",
  /** On Checkpoints that a client captured to name them: the NamedSnapshot whose version is built from it. */
  sourceOf: "ramet.dev/source-of",
  sandboxId: "agents.kruise.io/sandbox-id",
  /** On Checkpoints: the contents, sorted and joined by `-`. */
  checkpointType: "agents.kruise.io/checkpoint-type",
  checkpointId: "agents.kruise.io/checkpoint-id",
  /** On Checkpoints that share the data of another one, such as that of a pause: the id under which the data is stored. */
  dataOf: "ramet.dev/data-of",
  createdBy: "agents.kruise.io/created-by",
  /** On Pods: the revision of the Sandbox's template. */
  podTemplateHash: "pod-template-hash",
  /**
   * Why Ramet created the object. On Checkpoints: `pause` (deleted on resume), `automatic` (checkpoint-every), `version`, `step` or `source` of a named snapshot;
   * on Sandboxes: `build`. On both: `tree`, an uploaded directory tree.
   */
  purpose: "ramet.dev/purpose",
  /** On objects of a NamedSnapshot: its name. */
  snapshot: "ramet.dev/snapshot",
  snapshotUid: "ramet.dev/snapshot-uid",
  /** On Checkpoints captured after a step: the shortened digest of the step. */
  stepDigest: "ramet.dev/step-digest",
  /** On Pods that run a cell: `"true"`. Nodes, policies and lists select by it. */
  cell: "ramet.dev/cell",
  /** On any object of the controllers: `"true"` makes them leave it alone. */
  ignore: "ramet.dev/ignore",
  /** On namespaces: `"true"` makes the API server reject `exec` and the like for all their Pods, whatever else is set. */
  denyExec: "ramet.dev/deny-exec",
  /** On namespaces: `"true"` if the controllers have created a sandbox's Pod there. `exec` and the like are then rejected. */
  sandboxes: "ramet.dev/sandboxes",
  /** On namespaces, by an administrator: `"true"` allows `exec` and the like although there are sandboxes. */
  allowExec: "ramet.dev/allow-exec",
} as const;

const groupLabelPrefix = "group.ramet.dev/";

/** The label of PersistentVolumeClaims while they are captured together for a checkpoint, by which a VolumeGroupSnapshot selects. */
export function groupLabel(checkpointId: string): string {
  return `${groupLabelPrefix}${checkpointId}`;
}

export function checkpointOfGroupLabel(label: string): string | undefined {
  return label.startsWith(groupLabelPrefix) ? label.slice(groupLabelPrefix.length) : undefined;
}

export const finalizers = {
  sandbox: "agents.kruise.io/sandbox",
  checkpoint: "agents.kruise.io/checkpoint",
  namedSnapshot: "ramet.dev/named-snapshot",
} as const;

/** The `owner` annotation of a sandbox that its set is about to delete. */
export const scaleDownOwner = "__manager_scale_down";

/** The fields of a Sandbox that `restoreFrom` reads. */
export interface MaybeClone {
  metadata: { annotations?: Record<string, string> | undefined };
  spec: { template?: unknown };
}

/**
 * The checkpoint id or named snapshot of which a Sandbox is a clone, from its own annotations or those of its Pod template.
 * @param template the Pod template to which `spec.templateRef` resolves, if set
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
      { hint: "Remove one of the two annotations" },
    );
  }
  return first?.value;
}

/** The template has no schema in the API, so it can hold any value. */
export function templateAnnotations(template: unknown): Record<string, unknown> | undefined {
  return record(record(record(template)?.["metadata"])?.["annotations"]);
}

function record(value: unknown): Record<string, unknown> | undefined {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : undefined;
}

/** Marks an object with the Pulumi resource and stack that declare it, so that no other resource declares the same object. */
export const ownerAnnotation = "ramet.dev/pulumi-resource";

/** Reads an annotation with JSON. Users can write it, so one that is not valid counts as absent. */
export function jsonAnnotation<T>(
  { metadata }: { metadata: { annotations?: Record<string, string> | undefined } },
  name: string,
  schema: z.ZodType<T>,
): T | undefined {
  return parsedJson(schema, metadata.annotations?.[name]);
}
