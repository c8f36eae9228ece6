import type { Sandbox, SandboxManifest } from "../../api/kinds/sandbox.ts";
import { annotations, restoreFromAnnotations } from "../../api/names/labels.ts";
import { apiVersion } from "../../api/schema/kind.ts";
import { RametError } from "../../base/errors.ts";
import { createClaimed } from "../../operations/claim/claim-sandbox.ts";
import type { NamedManifest } from "../../operations/claim/cold-sandbox.ts";
import { untilSandboxKnown } from "./cache-lag.ts";
import type { ServiceParts } from "./parts.ts";
import type { Source } from "./source.ts";
import { claimOf, type NewSandbox } from "./create-sandbox.ts";
import { parsePodTemplate } from "../../api/schema/pod-template.ts";
import { defined } from "../../base/defined.ts";

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
  return untilSandboxKnown(parts, sandbox, signal);
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
  { namespace, name, storage }: CreateNamed,
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
