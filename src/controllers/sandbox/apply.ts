import { cellPod } from "../../api/pod/cell-pod.ts";
import { administratorsInterval, defaultDisruptionPolicy } from "../../api/pod/disruption.ts";
import { filesOnlyPause } from "../../operations/pause.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { annotations, finalizers } from "../../api/names/labels.ts";
import { fillClaimOf, type RestoreSource } from "../../backends/checkpoint-parts.ts";
import { defined } from "../../base/defined.ts";
import { RametError } from "../../base/errors.ts";
import type { SandboxRef } from "../../backends/runtime.ts";
import { controllerOf, keyOf } from "../../kube/object.ts";
import { type Claim, claimsIn } from "../../kube/volumes/volumes.ts";
import { neededEngine } from "../images/engines.ts";
import { automaticCheckpoint, pauseCheckpoint, storedPause } from "../cluster/pause-checkpoint.ts";
import type { ResolvedTemplate } from "../origin/resolve-template.ts";
import { callCell, isCellAction } from "./cell-actions.ts";
import {
  claimsFromTemplates,
  createClaim,
  emptyClaimLike,
  type FillClaim,
  type NewClaim,
  releaseClaims,
  shareClaims,
} from "./claims.ts";
import { nodeOfClaims } from "./gather-volumes.ts";
import { intendedEnd } from "./plan-disruption.ts";
import { rollbackUnderWay } from "./rollback.ts";
import type { SandboxDependencies } from "./dependencies.ts";
import type { SandboxAction } from "./state.ts";

/** Carries out one action. Every action can be repeated: an existing or a deleted object is no error. */
export async function applyAction(
  sandbox: Sandbox,
  action: SandboxAction,
  dependencies: SandboxDependencies,
): Promise<unknown> {
  const { sandboxes } = dependencies.informers;
  const { uid } = sandbox.metadata;
  if (isCellAction(action)) {
    callCell(sandbox, action, dependencies);
    return;
  }
  switch (action.do) {
    case "addFinalizer":
      return dependencies.sandboxWrites.write(sandbox, () =>
        sandboxes.resource.addFinalizer(sandbox, finalizers.sandbox, patchWithFinalizer(sandbox, action)),
      );
    case "removeFinalizer":
      // Nothing finds these claims again after the Sandbox.
      await releaseClaims(claimsIn(dependencies.client), sandbox, action.claims);
      return sandboxes.resource.removeFinalizer(sandbox, finalizers.sandbox);
    case "createPod":
      return createPod(sandbox, action, dependencies);
    case "deletePod":
      return deletePod(sandbox, action, dependencies);
    case "stopUnseen":
      stopUnseen(sandbox, action.target, dependencies);
      return;
    case "forgetUnseen":
      dependencies.unseen.forget(action.podUid);
      dependencies.formerPods.ended(action.podUid);
      return;
    case "releaseClaims":
      return releaseClaims(claimsIn(dependencies.client), sandbox, action.claims);
    case "shareClaims":
      return shareClaims(claimsIn(dependencies.client), sandbox, action.claims);
    case "deleteSandbox":
      return sandboxes.resource.delete(sandbox.metadata, { uid });
    case "setPaused":
      return setPaused(sandbox, action, dependencies);
    default:
      return changeCheckpoint(sandbox, action, dependencies);
  }
}

function changeCheckpoint(
  sandbox: Sandbox,
  action: Extract<SandboxAction, { do: "createPauseCheckpoint" | "createAutomaticCheckpoint" | "deleteCheckpoint" }>,
  { informers: { checkpoints } }: SandboxDependencies,
): Promise<unknown> {
  if (action.do !== "deleteCheckpoint") return checkpoints.resource.ensure(checkpointManifest(sandbox, action));
  const { metadata } = action.checkpoint;
  return checkpoints.resource.delete(metadata, { uid: metadata.uid });
}

/** Tells the cell concurrently: it may learn that the end is intended before or after that begins. */
async function deletePod(
  sandbox: Sandbox,
  { pod, isUnused = false }: Extract<SandboxAction, { do: "deletePod" }>,
  dependencies: SandboxDependencies,
): Promise<void> {
  for (const end of intendedEnd(pod)) callCell(sandbox, end, dependencies);
  const { uid } = pod.metadata;
  await dependencies.informers.pods.resource.delete(pod.metadata, { uid, ...(isUnused && { gracePeriodSeconds: 0 }) });
}

/** Repeated while the cell cannot be reached. Whatever else has its address by now cannot prove to be that cell. */
function stopUnseen(
  sandbox: Sandbox,
  target: SandboxRef,
  { unseen, runtime, log, enqueue }: SandboxDependencies,
): void {
  const { podUid = "" } = target;
  const key = keyOf(sandbox.metadata);
  if (unseen.get(podUid)?.state === "failed") unseen.forget(podUid);
  const stop = async (): Promise<undefined> => {
    await runtime.stop(target, "the sandbox has lost this Pod");
    log.info({ sandbox: key, podUid }, "stopped a sandbox whose Pod was removed");
    return undefined;
  };
  unseen.start(podUid, stop, () => {
    enqueue(key);
  });
}

async function setPaused(
  sandbox: Sandbox,
  { shutdownTime, keepsFilesOnly }: Extract<SandboxAction, { do: "setPaused" }>,
  { informers }: SandboxDependencies,
): Promise<void> {
  const { uid, resourceVersion } = sandbox.metadata;
  const filesOnly = keepsFilesOnly === true ? filesOnlyPause(sandbox) : undefined;
  await informers.sandboxes.resource.mergePatch(sandbox.metadata, {
    // Fails with a conflict if the timers have changed since the plan.
    metadata: { ...filesOnly?.metadata, uid, resourceVersion },
    spec: {
      ...filesOnly?.spec,
      paused: true,
      ...(shutdownTime !== undefined && { shutdownTime, pauseTime: shutdownTime }),
    },
  });
}

function checkpointManifest(
  sandbox: Sandbox,
  action: Extract<SandboxAction, { do: "createPauseCheckpoint" | "createAutomaticCheckpoint" }>,
) {
  if (action.do === "createAutomaticCheckpoint") return automaticCheckpoint(sandbox, action);
  const { persistentContents: contents, isOfDisruption, stored } = action;
  return stored === undefined
    ? pauseCheckpoint(sandbox, contents, isOfDisruption)
    : storedPause(sandbox, { ...stored, contents });
}

/** The changes that are written together with the finalizer. */
function patchWithFinalizer(
  sandbox: Sandbox,
  { borrowed, resolvedCheckpoint, claims }: Extract<SandboxAction, { do: "addFinalizer" }>,
) {
  return {
    ...(borrowed && { spec: specOf(borrowed, sandbox) }),
    metadata: {
      annotations: {
        ...defined({ [annotations.resolvedCheckpoint]: resolvedCheckpoint }),
        ...(claims && { [annotations.volumeClaims]: JSON.stringify(Object.fromEntries(claims)) }),
      },
    },
  };
}

/** What was stored with the checkpoint, as fields of the sandbox's spec. The sandbox's own pause strategy takes precedence. */
function specOf({ template, volumeClaims, contents, ...stored }: ResolvedTemplate, { spec }: Sandbox): object {
  const { pauseStrategy = stored.pauseStrategy } = spec;
  return {
    template,
    ...(volumeClaims.length > 0 && { volumeClaimTemplates: volumeClaims }),
    ...defined({ ...contents, pauseStrategy }),
  };
}

async function createPod(
  sandbox: Sandbox,
  action: Extract<SandboxAction, { do: "createPod" }>,
  dependencies: SandboxDependencies,
): Promise<void> {
  const { informers, namespaces, podOptions, podKeys, newPods, clock } = dependencies;
  const {
    template: { template, volumeClaims, contents, pauseStrategy },
    start,
    source,
    egress,
    volumes,
    image,
    avoided,
  } = action;
  const startedAt = clock.monotonicMilliseconds();
  const owner = { metadata: sandbox.metadata, spec: { volumeClaimTemplates: volumeClaims } };
  // A claim of a set's sandbox may restore a checkpoint in place.
  const ownerKind = controllerOf(sandbox)?.kind;
  const keepsWaiting = ownerKind === "SandboxSet";
  // Every Pod of a sandbox is created here, for every author of the Sandbox and every origin of its template.
  const ofNamespace = await namespaces.admit(sandbox.metadata.namespace, template);
  const claims = await claimsFor(sandbox, action, dependencies);
  const strategy = sandbox.spec.pauseStrategy ?? pauseStrategy;
  const manifest = cellPod(owner, template, {
    onDisruption: defaultDisruptionPolicy(contents.persistentContents, strategy),
    ...defined(podOptions),
    ...ofNamespace,
    ...defined({
      checkpointEvery: administratorsInterval(podOptions.checkpointEvery, ofNamespace.checkpointEvery),
    }),
    ...podKeys(),
    ...restoredBy(source, dependencies),
    storeBytesPerSecond: dependencies.storeSpeed(),
    userNamespace: podOptions.userNamespaceFor?.(template) === true,
    start,
    keepsWaiting,
    isBuild: ownerKind === "NamedSnapshot",
    egress,
    claims: volumes.claims,
    node: nodeOfClaims(sandbox, claims, dependencies),
    avoided,
    ...(image instanceof RametError ? { imageProblem: imageProblem(image) } : { resolvedImage: image }),
  });
  const pod = await informers.pods.resource.ensure(manifest);
  if (controllerOf(pod)?.uid === sandbox.metadata.uid) {
    newPods.add(sandbox.metadata.uid, pod, startedAt);
    return;
  }
  throw new RametError("AlreadyExists", `A Pod ${pod.metadata.name} exists and belongs to something else`, {
    hint: "Delete it, or give the sandbox another name",
  });
}

/** Returns the settings of a Pod that restores a checkpoint, or of a new sandbox. */
function restoredBy(source: RestoreSource | undefined, { engines }: SandboxDependencies) {
  const parts = source?.parts ?? [];
  const needing = parts.find(({ needs }) => needs !== undefined);
  return {
    cellImage: engines.imageFor(neededEngine(parts)),
    architecture: needing?.needs?.architecture,
    restoresMemory: parts.some(({ contents }) => contents.includes("memory")),
    layers: parts.flatMap(({ layers = [] }) => layers),
    restoredBytes: parts
      .filter(({ contents }) => !contents.includes("volumes"))
      .reduce((sum, one) => sum + one.sizeBytes, 0),
  };
}

/** Creates the claims of a Pod that do not exist yet, and keeps those that it shares from being deleted before it. */
async function claimsFor(
  sandbox: Sandbox,
  { template: { volumeClaims }, volumes, source }: Extract<SandboxAction, { do: "createPod" }>,
  dependencies: SandboxDependencies,
): Promise<Claim[]> {
  const { client, backends } = dependencies;
  const { claims, copies, shared, filled } = volumes;
  if (volumeClaims.length === 0 && claims.size === 0) return [];
  const resource = claimsIn(client);
  const fill: FillClaim = async (name, spec) => {
    const part = filled.get(name);
    return part === undefined || source === undefined ? spec : fillClaimOf(backends, { source, part, spec });
  };
  if (rollbackUnderWay(sandbox) !== undefined && filled.size > 0) await recordClaims(sandbox, claims, dependencies);
  const made = new Set(volumeClaims.map((template) => nameOfTemplate(template)));
  const withoutTemplate = [...claims].flatMap(([volume, name]) =>
    filled.has(name) && !made.has(volume) ? [name] : [],
  );
  const wanted: NewClaim[] = [
    ...claimsFromTemplates(sandbox, volumeClaims, { chosen: claims, filled, fill }),
    ...withoutTemplate.map((name) => ({ name, spec: () => fill(name, {}) })),
    ...[...copies].map((copy) => emptyClaimLike(resource, sandbox, copy)),
  ];
  const [existing, created] = await Promise.all([
    shareClaims(resource, sandbox, shared),
    Promise.all(wanted.map((claim) => createClaim(resource, sandbox, claim))),
  ]);
  return [...created, ...existing];
}

function nameOfTemplate({ metadata }: Record<string, unknown>): string | undefined {
  return (metadata as { name?: string } | null | undefined)?.name;
}

/** Before the Pod mounts them: after a pause, the next Pod must mount the same. */
async function recordClaims(
  sandbox: Sandbox,
  claims: ReadonlyMap<string, string>,
  { informers, sandboxWrites }: SandboxDependencies,
): Promise<void> {
  const text = JSON.stringify(Object.fromEntries(claims));
  if (sandbox.metadata.annotations?.[annotations.volumeClaims] === text) return;
  const { uid } = sandbox.metadata;
  const change = { metadata: { uid, annotations: { [annotations.volumeClaims]: text } } };
  await sandboxWrites.write(sandbox, () => informers.sandboxes.resource.mergePatch(sandbox.metadata, change));
}

/** In the Pod, because the status of the Sandbox is written once it runs, maybe by another process. */
function imageProblem({ code, message }: RametError): string {
  return JSON.stringify({ code, message: message.slice(0, 1_000) });
}
