import { createHash } from "node:crypto";
import * as z from "zod";
import { ownerAnnotation } from "../../src/api/names/labels.ts";
import { RametError } from "../../src/base/errors.ts";
import type { KubeClient } from "../../src/kube/kube-client.ts";
import type { KubeManifest, KubeObject, ObjectName } from "../../src/kube/object.ts";
import type { ResourceClient } from "../../src/kube/resource-client.ts";
import { apiStatusOf, type ApiStatus } from "../../src/kube/status-error.ts";
import type { CheckResult, Values } from "./handler.ts";
import { type ClusterEnvironment, readCluster } from "./open-cluster.ts";
import { hasUnknown } from "./validate.ts";

const fieldManager = "ramet-pulumi";

/**
 * The resource that declares an object, from its annotation. Without the annotation, the field managers show whether
 * Pulumi wrote it. Undefined if no program declares it.
 */
export function declaredBy({ metadata }: KubeObject): string | undefined {
  const marked = metadata.annotations?.[ownerAnnotation];
  if (marked !== undefined) return marked;
  const { managedFields } = Written.parse(metadata);
  return managedFields.some(({ manager }) => manager?.startsWith("pulumi")) ? "an unnamed Pulumi program" : undefined;
}

/** What a state says of an object. */
export interface FormerObject {
  /** The resource's name when the state was written: stacks, projects and resources may be renamed. */
  owner?: string | undefined;
  /** Absent in states of earlier releases. */
  uid?: unknown;
}

/**
 * Options for applying an object. An object that this resource declared before is applied with force, which reverts
 * changes by others (a preview after a refresh shows them).
 * @param owner this resource
 * @param former what the state says. Undefined if there is none: then an object that exists is one of others
 * @throws RametError `AlreadyExists` if another resource declares the object, or nobody does and it is not in the state
 */
export function applyOptionsFor(
  found: KubeObject | undefined,
  owner: string,
  former: FormerObject = {},
): { fieldManager: string; force: boolean } {
  const known = found?.metadata.annotations?.[ownerAnnotation];
  if (found === undefined || found.metadata.deletionTimestamp !== undefined) return { fieldManager, force: false };
  if (known === owner || (known !== undefined && known === former.owner)) return { fieldManager, force: true };
  // It was imported, or a release without the annotation has made it. Another one of its name is of somebody else.
  const isSame = known === undefined && former.owner !== undefined && !isAnother(found, former.uid);
  if (isSame) return { fieldManager, force: former.uid !== undefined };
  throw ofOthers(found, owner, known);
}

interface Declared {
  /** The object of this name, before the program declares it. */
  found: KubeObject | undefined;
  owner: string;
  former?: FormerObject | undefined;
}

/**
 * Applies the object that a program declares. Of several programs that make it at the same time, one succeeds: each also sets the owner of
 * a new object under a separate field manager, and different owners conflict.
 * @throws RametError those of `applyOptionsFor`; `Conflict` and `NotFound` with hints
 */
export async function applyOwned<T extends KubeObject>(
  resource: ResourceClient<T>,
  manifest: KubeManifest,
  { found, owner, former }: Declared,
): Promise<T> {
  const options = applyOptionsFor(found, owner, former);
  const { apiVersion, kind, metadata } = manifest;
  const at = { ...metadata, name: metadata.name ?? "" };
  try {
    const applied = await resource.apply(manifest, options);
    if (found !== undefined) return applied;
    const { name, namespace, uid } = applied.metadata;
    const claim = { name, namespace, uid, annotations: { [ownerAnnotation]: owner } };
    return await resource.apply({ apiVersion, kind, metadata: claim }, { fieldManager: claimManager(owner) });
  } catch (error) {
    const now = found === undefined ? await resource.find(at).catch(() => undefined) : undefined;
    if (now !== undefined && RametError.from(error).code === "Conflict") applyOptionsFor(now, owner);
    throw explainApplyError(error, kind, at);
  }
}

function claimManager(owner: string): string {
  return `${fieldManager}-${createHash("sha256").update(owner).digest("hex").slice(0, 16)}`;
}

function isAnother({ metadata }: KubeObject, uid: unknown): boolean {
  return uid !== undefined && metadata.uid !== uid;
}

/** Whether an object is the one of a state. Of one that nobody declares, the UID decides. */
export function isOwn(found: KubeObject, { owner, uid }: { owner: string; uid?: unknown }): boolean {
  const known = found.metadata.annotations?.[ownerAnnotation];
  return known === undefined ? !isAnother(found, uid) : known === owner;
}

/** @param known the resource that declares the object, if one does */
function ofOthers({ kind = "object", metadata }: KubeObject, owner: string, known: string | undefined): RametError {
  const { namespace = "", name } = metadata;
  const what = `${kind} ${namespace}/${name}`;
  const command = `kubectl annotate --overwrite ${kind.toLowerCase()} ${name} -n ${namespace} ${ownerAnnotation}=${owner}`;
  if (known === undefined) {
    return new RametError("AlreadyExists", `${what} exists, and this program does not declare it`, {
      hint: `Use another name, or take it over: with the plugin by pulumi import, otherwise by ${command}`,
    });
  }
  return new RametError("AlreadyExists", `${what} is declared by ${known}`, {
    hint: `Use another name, or remove it from that program; if that is an earlier name of this resource, run: ${command}`,
  });
}

/**
 * The problem of a new resource whose object exists and is one of others, for a preview. The update finds it too.
 * @returns none if the cluster cannot be read now, or if the state has the object
 */
export async function nameProblems(
  context: ClusterEnvironment,
  { olds, inputs }: { olds: Values; inputs: Values },
  find: (
    client: KubeClient,
    at: { namespace: string; name: string },
    signal: AbortSignal,
  ) => Promise<KubeObject | undefined>,
): Promise<CheckResult["failures"]> {
  const { namespace, name, owner } = inputs as Record<"namespace" | "name" | "owner", string>;
  const isKept = olds["name"] === name && olds["namespace"] === namespace;
  if (isKept || hasUnknown([namespace, name])) return [];
  const at = { namespace, name };
  const found = await readCluster(context, (client, signal) => find(client, at, signal), {
    withinMilliseconds: 5_000,
  }).catch(() => undefined);
  try {
    applyOptionsFor(found, owner);
    return [];
  } catch (error) {
    return [{ property: "name", reason: RametError.from(error).describe() }];
  }
}

/** The resource that declares the object. An object without the annotation belongs to `self`. */
export function ownerOf({ metadata }: KubeObject, self: string): string {
  return metadata.annotations?.[ownerAnnotation] ?? self;
}

/**
 * A hint for objects that only one resource may declare. Pulumi deletes what a program no longer declares, so a renamed
 * resource must not adopt its own objects.
 * @param object arguments for `kubectl` that name the object
 */
export function ownerConflictHint(owner: string, object: string): string {
  return (
    'If that is another resource, set mode to "adopt", because two would conflict. ' +
    "If that is an earlier name of this resource, adopting would delete its objects: set the option aliases if you renamed it in the program, " +
    `otherwise run: kubectl annotate --overwrite ${object} ${ownerAnnotation}=${owner}`
  );
}

/** Adds hints to the errors of an apply: a field conflict, or a missing CRD. */
export function explainApplyError(error: unknown, kind: string, { namespace = "", name }: ObjectName): RametError {
  const known = RametError.from(error);
  const status = apiStatusOf(known);
  if (known.code === "NotFound" && status !== undefined && isKindMissing(status)) {
    return new RametError("NotFound", `The cluster does not serve the kind ${kind}: Ramet's CRDs are not installed`, {
      hint: "Add a RametRuntime, which installs them, to dependsOn; on one machine, run: ramet local up",
      cause: error,
    });
  }
  if (known.code !== "Conflict" || status === undefined) return known;
  return new RametError("Conflict", `${kind} ${namespace}/${name} has another field manager: ${known.message}`, {
    hint: "Remove the fields from the other manager (the command line uses ramet-cli), or use another name",
    cause: error,
  });
}

const Written = z.looseObject({
  managedFields: z.array(z.looseObject({ manager: z.string().optional() })).default([]),
});

/**
 * Messages about other missing objects name them: `namespaces "a" not found`. For a missing group the response is plain
 * text.
 */
function isKindMissing({ message }: ApiStatus): boolean {
  return message === "the server could not find the requested resource" || message.startsWith("404 page not found");
}
