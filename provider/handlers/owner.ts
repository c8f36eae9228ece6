import * as z from "zod";
import { RametError } from "../../src/base/errors.ts";
import type { KubeObject, ObjectName } from "../../src/kube/object.ts";
import { apiStatusOf, type ApiStatus } from "../../src/kube/status-error.ts";

/** The one field manager of what programs declare. */
const fieldManager = "ramet-pulumi";

/** On an object that a program declares: which resource of which stack it is, so that no two declare the same one. */
export const ownerAnnotation = "ramet.dev/pulumi-resource";

/**
 * Which resource of a program declares an object, as its mark says; where somebody has taken that away, that Pulumi has written the
 * object. Undefined: no program declares it.
 */
export function declaredBy({ metadata }: KubeObject): string | undefined {
  const marked = metadata.annotations?.[ownerAnnotation];
  if (marked !== undefined) return marked;
  const { managedFields } = Written.parse(metadata);
  return managedFields.some(({ manager }) => manager?.startsWith("pulumi"))
    ? "a Pulumi program that left no name"
    : undefined;
}

/**
 * How an object may be written: what this resource has declared before is taken back from whoever has changed it since, which
 * a preview after a refresh shows; of what somebody else made, nothing is taken.
 * @param owner this resource
 * @param formerOwner what it was called when its state was written: stacks, projects and resources are renamed
 * @throws RametError `AlreadyExists` when another resource of a program declares the object
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
    hint: `Give this one another name, or remove it there first; to take it over, remove the annotation ${ownerAnnotation}`,
  });
}

/** Which resource of a program declares the object: one that bears no name of one is the asker's own. */
export function ownerOf({ metadata }: KubeObject, asker: string): string {
  return metadata.annotations?.[ownerAnnotation] ?? asker;
}

/**
 * What to do where another resource declares what can be declared once: what a program declares no more is removed, so a resource that has
 * got another name must not leave to its old one what is its own.
 * @param object as `kubectl` is told of it
 */
export function ownerConflictHint(owner: string, object: string): string {
  return (
    'If that is another resource, set mode to "adopt", since two would work against each other. ' +
    "If that is this one under an earlier name, adopting would remove what it has declared: give it the option aliases if it was renamed in the program, " +
    `and otherwise say so by: kubectl annotate --overwrite ${object} ${ownerAnnotation}=${owner}`
  );
}

/** The error of an apply that was refused because somebody else holds a field, or nobody serves the kind, with what to do. */
export function explainApplyError(error: unknown, kind: string, { namespace = "", name }: ObjectName): RametError {
  const known = RametError.from(error);
  const status = apiStatusOf(known);
  if (known.code === "NotFound" && status !== undefined && isKindMissing(status)) {
    return new RametError("NotFound", `The cluster serves no ${kind}: Ramet's CRDs are not there`, {
      hint: "Let this depend on a RametRuntime, which brings them; or on one machine, run: ramet local up",
      cause: error,
    });
  }
  if (known.code !== "Conflict" || status === undefined) return known;
  return new RametError("Conflict", `${kind} ${namespace}/${name} is managed by somebody else: ${known.message}`, {
    hint: "Remove the fields there (the command line's field manager is ramet-cli), or give this one another name",
    cause: error,
  });
}

const Written = z.looseObject({
  managedFields: z.array(z.looseObject({ manager: z.string().optional() })).default([]),
});

/** What is missing besides is named: `namespaces "a" not found`. Of a whole group there is no more than text. */
function isKindMissing({ message }: ApiStatus): boolean {
  return message === "the server could not find the requested resource" || message.startsWith("404 page not found");
}
