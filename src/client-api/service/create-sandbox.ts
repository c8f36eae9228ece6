import { randomUUID } from "node:crypto";
import { clientEnvironment } from "../../api/pod/client-environment.ts";
import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import type { RequestSeal } from "../../api/names/init-request.ts";
import { annotations as annotationNames, restoreFromAnnotations } from "../../api/names/labels.ts";
import { apiVersion } from "../../api/schema/kind.ts";
import { defined } from "../../base/defined.ts";
import { RametError } from "../../base/errors.ts";
import { claimSandbox, createClaimed } from "../../operations/claim/claim-sandbox.ts";
import type { NamedManifest } from "../../operations/claim/cold-sandbox.ts";
import { type ClaimRequest, validateClaimRequest } from "../../operations/claim/request.ts";
import { awaitSandbox, type SandboxWait } from "../../operations/await-sandbox.ts";
import { objectOf } from "../../operations/objects.ts";
import type { ServiceParts } from "./parts.ts";
import { currentSource, findWarmSet, type Source } from "./source.ts";

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
  /** Further annotations of the Sandbox. */
  annotations: Record<string, string>;
  signal: AbortSignal;
}

export interface CreateSandbox extends NewSandbox {
  /** The source that it is created from, as the client wrote it. */
  source: string;
  /** Environment variables of every command that starts in it. */
  environment?: Record<string, string>;
  /** Seals the variables before they are written. @default plain text, which the controllers seal */
  seal?: Pick<RequestSeal, "seal"> | undefined;
  /** How long to wait until it serves. */
  timeoutMilliseconds: number;
}

/**
 * Creates a sandbox, by a claim where a set has a ready one, and waits until it serves. A sandbox that does not start is deleted.
 * @throws RametError `NotFound` for an unknown source; `Timeout`; the error of the sandbox
 */
export async function createSandbox(parts: ServiceParts, create: CreateSandbox): Promise<Sandbox> {
  const source = await currentSource(parts, create.namespace, create.source, create.signal);
  const deadline = parts.clock.monotonicMilliseconds() + create.timeoutMilliseconds;
  const sandbox = await makeSandbox(parts, create, source);
  try {
    return await untilServing(parts, sandbox, {
      timeoutMilliseconds: Math.max(1, deadline - parts.clock.monotonicMilliseconds()),
      signal: create.signal,
      isNew: true,
    });
  } catch (error) {
    // What cannot be deleted now ends when its time is over.
    await parts.objects.sandboxes.remove(sandbox).catch(() => undefined);
    throw error;
  }
}

/** Claims or creates a sandbox, which may not serve yet. */
export async function makeSandbox(parts: ServiceParts, create: CreateSandbox, source: Source): Promise<Sandbox> {
  if (source.kind === "set")
    return claim(parts, requestOf(create, parts, { set: source.set.metadata.name, isServing: true }), create);
  if (source.kind === "template") {
    return createCold(parts, create, { stem: source.name, own: {}, spec: { templateRef: { name: source.name } } });
  }
  const { checkpoint, reference } = source;
  const warm = checkpoint && (await claimWarm(parts, create, checkpoint));
  if (warm !== undefined) return warm;
  const stem = reference.split("@")[0] ?? reference;
  return createCold(parts, create, { stem, own: { [restoreFromAnnotations[0]]: reference }, spec: {} });
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
  const { set, isRestored } = found;
  const needed = checkpoint.status?.ramet?.engine;
  const fits = (sandbox: Sandbox): boolean => needed === undefined || sandbox.status?.ramet?.engine === needed;
  const request = {
    ...requestOf(create, parts, { set: set.metadata.name, isServing: isRestored }),
    createOnNoStock: false,
    timeoutMilliseconds: 1,
    ...(!isRestored && { restoreFrom: id, fits }),
  };
  return claim(parts, request, create).catch((error: unknown) => {
    // Another client took the last one.
    if (RametError.from(error).code === "Timeout") return undefined;
    throw error;
  });
}

async function claim(parts: ServiceParts, request: ClaimRequest, { signal }: CreateSandbox): Promise<Sandbox> {
  return (await claimSandbox(request, parts.claims, signal)).sandbox;
}

/** Creates a sandbox in a new Pod. */
function createCold(
  parts: ServiceParts,
  create: CreateSandbox,
  { stem, own, spec }: { stem: string; own: Record<string, string>; spec: NonNullable<NamedManifest["spec"]> },
): Promise<Sandbox> {
  const request = requestOf(create, parts, { set: stem, isServing: false });
  validateClaimRequest(request);
  const metadata = { name: "", namespace: create.namespace, annotations: own };
  return createClaimed({ apiVersion, kind: "Sandbox", metadata, spec }, request, parts.claims);
}

interface Requested {
  /** The set, or the name from which that of a new sandbox is derived. */
  set: string;
  /** Whether it serves already, with the variables of its set. A request for others takes a call of its guest. */
  isServing: boolean;
}

function requestOf(create: CreateSandbox, parts: ServiceParts, { set, isServing }: Requested): ClaimRequest {
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
  { namespace, owner, requestId, onTimeout, lifeMilliseconds, annotations }: NewSandbox,
  set: string,
): ClaimRequest {
  return {
    namespace,
    set,
    owner,
    lock: requestId ?? randomUUID(),
    annotations: { ...annotations, [annotationNames.onTimeout]: onTimeout },
    ...timersFor(onTimeout, endAfter(parts, lifeMilliseconds)),
    createOnNoStock: true,
    timeoutMilliseconds: 1,
  };
}

export function endAfter({ clock }: Pick<ServiceParts, "clock">, milliseconds: number): Date {
  return new Date(clock.now().getTime() + milliseconds);
}

/** @throws RametError `Timeout`; the error of the sandbox if it ended; `Conflict` if it was deleted or paused */
export async function untilServing(
  { objects }: ServiceParts,
  written: Sandbox,
  wait: Omit<SandboxWait, "goal">,
): Promise<Sandbox> {
  return objectOf(await awaitSandbox(objects, written, wait));
}

/** The timers of a running sandbox, as fields of its spec. */
export function timersFor(onTimeout: OnTimeout, at: Date): { shutdownTime: string } | { pauseTime: string } {
  const time = at.toISOString();
  return onTimeout === "kill" ? { shutdownTime: time } : { pauseTime: time };
}
