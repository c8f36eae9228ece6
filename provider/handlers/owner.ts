import * as z from "zod";
import { ownerAnnotation } from "../../src/api/names/labels.ts";
import { RametError } from "../../src/base/errors.ts";
import type { KubeObject, ObjectName } from "../../src/kube/object.ts";
import { apiStatusOf, type ApiStatus } from "../../src/kube/status-error.ts";

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

/**
 * Options for applying an object. An object that this resource declared before is applied with force, which reverts
 * changes by others (a preview after a refresh shows them). Any other object is applied without force.
 * @param owner this resource
 * @param formerOwner the resource's name when its state was written: stacks, projects and resources may be renamed
 * @throws RametError `AlreadyExists` if another resource declares the object
 */
export function applyOptionsFor(
  found: KubeObject | undefined,
  owner: string,
  formerOwner = owner,
): { fieldManager: string; force: boolean } {
  const known = found?.metadata.annotations?.[ownerAnnotation];
  if (found === undefined || known === undefined) return { fieldManager, force: false };
  if (known === owner || known === formerOwner) return { fieldManager, force: true };
  const { namespace = "", name } = found.metadata;
  throw new RametError("AlreadyExists", `${found.kind ?? "The object"} ${namespace}/${name} is declared by ${known}`, {
    hint: `Use another name, or remove the object from that program first; to take it over, remove the annotation ${ownerAnnotation}`,
  });
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
