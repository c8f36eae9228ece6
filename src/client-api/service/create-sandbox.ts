import { randomUUID } from "node:crypto";
import { clientEnvironment } from "../../api/pod/client-environment.ts";
import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import type { Sandbox, SandboxManifest } from "../../api/kinds/sandbox.ts";
import type { RequestSeal } from "../../api/names/init-request.ts";
import {
  annotations as annotationNames,
  annotations,
  labels,
  restoreFrom,
  restoreFromAnnotations,
} from "../../api/names/labels.ts";
import { apiVersion } from "../../api/schema/kind.ts";
import { defined } from "../../base/defined.ts";
import { RametError } from "../../base/errors.ts";
import { claimSandbox, createClaimed } from "../../operations/claim/claim-sandbox.ts";
import type { NamedManifest } from "../../operations/claim/cold-sandbox.ts";
import { type ClaimRequest, validateClaimRequest } from "../../operations/claim/request.ts";
import { awaitSandbox } from "../../operations/await-sandbox.ts";
import { hasWaitEnded, objectOf } from "../../operations/objects.ts";
import type { ServiceParts } from "./parts.ts";
import { currentSource, findWarmSet, type Source } from "./source.ts";
import { startUnder, type StartUnder } from "./start-under.ts";
import { unlessTimeout, untilKnown } from "./cache-lag.ts";
import { parsePodTemplate } from "../../api/schema/pod-template.ts";

/** The end of a sandbox whose time is over. */
export type OnTimeout = "kill" | "pause" | "pauseFiles";

/** What clients decide about each new sandbox. */
export interface NewSandbox {
  namespace: string;
  /** Who creates it: the API key, as `<namespace>/<name>`. */
  owner: string;
  /** A UUID. A repeat of the same request returns the sandbox of the first attempt. @default a new one */
  requestId?: string;
  onTimeout: OnTimeout;
  /** How long it lives from now on. */
  lifeMilliseconds: number;
  /** How long it exists, also while it is paused. @default until it is deleted */
  hardLifeMilliseconds?: number | undefined;
  /** Further annotations of the Sandbox. */
  annotations: Record<string, string>;
  signal: AbortSignal;
}

export interface CreateSandbox extends NewSandbox {
  /** The source that it is created from, as the client wrote it. */
  source: string;
  /** A snapshot with whose content it starts. The source then only gives the template. */
  snapshot?: string | undefined;
  /** Environment variables of every command that starts in it. */
  environment?: Record<string, string>;
  /** Seals the variables before they are written. @default plain text, which the controllers seal */
  seal?: Pick<RequestSeal, "seal"> | undefined;
  /** Whether the client can repeat the request, which then finds the sandbox. @default false */
  isRepeatable?: boolean;
  /** How long to wait until it serves. */
  timeoutMilliseconds: number;
}

/**
 * Creates a sandbox, by a claim where a set has a ready one, and waits until it serves. A sandbox that does not start is deleted, unless
 * only the wait has ended and the client can repeat the request.
 * @throws RametError `NotFound` for an unknown source or snapshot; `TemplateMismatch` for a snapshot that cannot start under the
 *   template; `Timeout`; the error of the sandbox
 */
export async function createSandbox(parts: ServiceParts, create: CreateSandbox): Promise<Sandbox> {
  const { namespace, signal } = create;
  const source = await currentSource(parts, namespace, create.source, signal);
  const start = create.snapshot && (await startUnder(parts, { namespace, source, signal }, create.snapshot));
  const deadline = parts.clock.monotonicMilliseconds() + create.timeoutMilliseconds;
  const sandbox = await (start ? makeRestored(parts, create, start) : makeSandbox(parts, create, source));
  const timeoutMilliseconds = Math.max(1, deadline - parts.clock.monotonicMilliseconds());
  try {
    const wait = { timeoutMilliseconds, signal, isNew: true };
    return objectOf(await awaitSandbox(parts.objects, sandbox, wait));
  } catch (error) {
    // What cannot be deleted now ends when its time is over.
    if (create.isRepeatable !== true || !hasWaitEnded(error))
      await parts.objects.sandboxes.remove(sandbox).catch(() => undefined);
    const id = start ? start.checkpointId : source.kind === "checkpoint" && source.checkpoint?.status?.checkpointId;
    throw id ? unlessDeleted(parts, { namespace, id }, error) : error;
  }
}

/** Whatever the failure of a sandbox says, a checkpoint that was deleted while it started is not lost. */
function unlessDeleted({ known }: ServiceParts, at: { namespace: string; id: string }, error: unknown): unknown {
  const found = known.checkpointById(at.namespace, at.id);
  const isKept = found !== undefined && found.metadata.deletionTimestamp === undefined;
  if (isKept || hasWaitEnded(error)) return error;
  const message = `The snapshot ${at.id} was deleted while a sandbox was created from it`;
  return new RametError("NotFound", message, { cause: error });
}

/** Claims or creates a sandbox, which may not serve yet. */
export async function makeSandbox(parts: ServiceParts, create: CreateSandbox, source: Source): Promise<Sandbox> {
  const { namespace, signal } = create;
  if (source.kind === "set") {
    const request = requestOf(parts, create, source.set.metadata.name, { isServing: true });
    return (await claimSandbox(request, parts.claims, signal)).sandbox;
  }
  const checkpoint = source.kind === "checkpoint" ? source.checkpoint : undefined;
  const warm = checkpoint && (await claimWarm(parts, create, checkpoint));
  if (warm !== undefined) return warm;
  const [stem = ""] = (source.kind === "template" ? source.name : source.reference).split("@");
  const request = requestOf(parts, create, stem, { isServing: false });
  validateClaimRequest(request);
  return createClaimed(await modelOf(parts, { namespace, name: "" }, source), request, parts.claims);
}

/** With the template of a source and the content of a checkpoint: in a ready sandbox of a set, or in a new Pod. */
async function makeRestored(parts: ServiceParts, create: CreateSandbox, start: StartUnder): Promise<Sandbox> {
  const { source, checkpointId: id } = start;
  const [name = ""] = (source.kind === "set" ? source.set.metadata.name : source.name).split("@");
  const { isRestored, fits } = start;
  const request = requestOf(parts, create, name, { isServing: false });
  if (source.kind === "set" && (start.isInPlace || isRestored)) {
    const ready = isRestored ? requestOf(parts, create, name, { isServing: true }) : { ...request, restoreFrom: id };
    const claim = claimSandbox({ ...ready, fits, onlyFitting: true }, parts.claims, create.signal);
    const claimed = await claim.catch(unlessTimeout);
    if (claimed !== undefined) return claimed.sandbox;
  }
  validateClaimRequest(request);
  const model = await modelOf(parts, { namespace: create.namespace, name: "" }, source);
  if (isRestored) return createClaimed(model, request, parts.claims);
  // The template says which volumes a sandbox has, and the snapshot has none of their data.
  const chosen = start.lacksVolumes ? { [annotations.volumesOnRestore]: "Empty" } : {};
  const own = { ...request, annotations: { ...request.annotations, ...chosen } };
  // A sandbox that starts from another checkpoint is rolled back once it runs.
  const isClone = restoreFrom({ metadata: model.metadata, spec: model.spec }) !== undefined;
  return createClaimed(model, { ...own, [isClone ? "restoreFrom" : "startsFrom"]: id }, parts.claims);
}

/** Undefined: no set has a sandbox in which the checkpoint can be restored. */
async function claimWarm(
  parts: ServiceParts,
  create: CreateSandbox,
  checkpoint: Checkpoint,
): Promise<Sandbox | undefined> {
  const found = findWarmSet(parts, checkpoint);
  const id = checkpoint.status?.checkpointId;
  if (found === undefined || id === undefined) return undefined;
  const { set, hash, isRestored } = found;
  const needed = checkpoint.status?.ramet?.engine;
  const fits = ({ metadata, status }: Sandbox): boolean =>
    metadata.labels?.[labels.templateHash] === hash &&
    (isRestored || needed === undefined || status?.ramet?.engine === needed);
  const request = {
    ...requestOf(parts, create, set.metadata.name, { isServing: isRestored }),
    fits,
    onlyFitting: true,
    ...(!isRestored && { restoreFrom: id }),
  };
  // Without a result, another client took the last one.
  return (await claimSandbox(request, parts.claims, create.signal).catch(unlessTimeout))?.sandbox;
}

/**
 * @param set the set, or the name from which that of a new sandbox is derived
 * @param options.isServing whether it serves already, with the variables of its set. A request for others takes a call of its guest.
 */
function requestOf(
  parts: ServiceParts,
  create: CreateSandbox,
  set: string,
  { isServing }: { isServing: boolean },
): ClaimRequest {
  const { namespace, source, timeoutMilliseconds, environment = {}, seal } = create;
  const needsCall = !isServing || Object.keys(environment).length > 0;
  const annotations = { ...create.annotations, [annotationNames.clientTemplate]: source };
  return {
    ...claimOf(parts, { ...create, annotations }, set),
    ...(needsCall && { environment: { ...environment, ...clientEnvironment(namespace, source) } }),
    ...defined({ seal }),
    timeoutMilliseconds,
  };
}

/** The claim of a new sandbox. @param set the set, or the name of the sandbox or its beginning */
export function claimOf(
  parts: Pick<ServiceParts, "clock">,
  { namespace, owner, requestId, onTimeout, lifeMilliseconds, hardLifeMilliseconds, annotations }: NewSandbox,
  set: string,
): ClaimRequest {
  return {
    namespace,
    set,
    owner,
    lock: requestId ?? randomUUID(),
    annotations: { ...annotations, [annotationNames.onTimeout]: onTimeout },
    ...timersFor(onTimeout, endAfter(parts, lifeMilliseconds)),
    ...(hardLifeMilliseconds !== undefined && { shutdownTime: endAfter(parts, hardLifeMilliseconds).toISOString() }),
    createOnNoStock: true,
    timeoutMilliseconds: 1,
  };
}

export function endAfter({ clock }: Pick<ServiceParts, "clock">, milliseconds: number): Date {
  return new Date(clock.now().getTime() + milliseconds);
}

/** The timers of a running sandbox, as fields of its spec. */
export function timersFor(onTimeout: OnTimeout, at: Date): { shutdownTime: string } | { pauseTime: string } {
  const time = at.toISOString();
  return onTimeout === "kill" ? { shutdownTime: time } : { pauseTime: time };
}

export interface CreateNamed extends NewSandbox {
  /** A DNS label. */
  name: string;
  requestId: string;
  /** A volume that the source does not have. */
  storage?: Storage | undefined;
}

/**
 * Creates a sandbox with a name that the client chose, and does not wait until it serves. It gets a new Pod: the ready sandboxes of
 * sets have names already.
 * @throws RametError `AlreadyExists` if the name is taken; `NotSupported` for the storage of a checkpoint
 */
export async function createNamed(parts: ServiceParts, create: CreateNamed, source: Source): Promise<Sandbox> {
  const { name, signal } = create;
  const model = await modelOf(parts, create, source);
  const request = { ...claimOf(parts, create, name), name };
  const sandbox = await createClaimed(model, request, parts.claims).catch((error: unknown) => {
    throw RametError.from(error).code === "Conflict" ? taken(name, error) : error;
  });
  return untilKnown(parts.sandboxes, sandbox, signal);
}

/** Whether a request has created this sandbox. */
export function isOfRequest({ metadata }: Sandbox, requestId: string): boolean {
  return metadata.annotations?.[annotations.lock] === requestId && metadata.deletionTimestamp === undefined;
}

/** @throws RametError `AlreadyExists` */
export async function checkNameIsFree(
  { informers }: ServiceParts,
  { namespace, name, requestId, signal }: Pick<CreateNamed, "namespace" | "name" | "requestId" | "signal">,
): Promise<Sandbox | undefined> {
  const found = await informers.sandboxes.resource.find({ namespace, name }, { signal });
  if (found !== undefined && !isOfRequest(found, requestId)) throw taken(name);
  return found;
}

function taken(name: string, cause?: unknown): RametError {
  return new RametError("AlreadyExists", `A sandbox with the name ${name} exists`, {
    hint: "Choose another name, or delete that sandbox",
    cause,
  });
}

async function modelOf(
  { claims, known }: ServiceParts,
  { namespace, name, storage }: Pick<CreateNamed, "namespace" | "name" | "storage">,
  source: Source,
): Promise<NamedManifest> {
  const own: NamedManifest = { apiVersion, kind: "Sandbox", metadata: { name, namespace }, spec: {} };
  if (source.kind === "checkpoint") {
    if (storage !== undefined)
      throw new RametError("NotSupported", "storage is not supported for a sandbox that is created from a checkpoint");
    return { ...own, metadata: { ...own.metadata, annotations: { [restoreFromAnnotations[0]]: source.reference } } };
  }
  if (source.kind === "template") {
    if (storage === undefined) return { ...own, spec: { templateRef: { name: source.name } } };
    const spec = known.template(`${namespace}/${source.name}`)?.spec;
    return { ...own, spec: withStorage({ ...spec, templateRef: undefined }, storage) };
  }
  const { name: set } = source.set.metadata;
  const model = await claims.model({ namespace, name: set });
  if (model === undefined) throw new RametError("NotFound", `The SandboxSet ${set} does not exist`);
  return storage === undefined ? model : { ...model, spec: withStorage(model.spec, storage) };
}

/** A volume of a sandbox, which is created and deleted with it. */
export interface Storage {
  /** A quantity, such as `10Gi`. */
  size: string;
  /** @default the default class of the cluster */
  storageClass?: string | undefined;
  mountPath: string;
}

type Spec = NonNullable<SandboxManifest["spec"]>;

const volume = "workspace";

/**
 * Adds a claim to a sandbox, mounted in its first container.
 * @throws RametError `InvalidArgument` if the template is not valid, or has a volume of that name or mount path already
 */
export function withStorage(
  { template, volumeClaimTemplates = [], ...spec }: Spec,
  { size, storageClass, mountPath }: Storage,
): Spec {
  const { spec: pod, ...others } = parsePodTemplate(template, "template");
  const [main, ...sidecars] = pod.containers;
  const mounts = main?.volumeMounts ?? [];
  const names = [...(pod.volumes ?? []), ...mounts].map(({ name }) => name);
  if (main === undefined || names.includes(volume) || mounts.some((mount) => mount.mountPath === mountPath)) {
    throw new RametError("InvalidArgument", `storage: the template has a volume at ${mountPath} already`, {
      hint: "Leave out storage, or set another mountPath",
    });
  }
  const claim = {
    metadata: { name: volume },
    spec: {
      accessModes: ["ReadWriteOnce"],
      resources: { requests: { storage: size } },
      ...defined({ storageClassName: storageClass }),
    },
  };
  const mounted = { ...main, volumeMounts: [...mounts, { name: volume, mountPath }] };
  return {
    ...spec,
    template: { ...others, spec: { ...pod, containers: [mounted, ...sidecars] } },
    volumeClaimTemplates: [...volumeClaimTemplates, claim],
  };
}
