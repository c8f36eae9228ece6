import {
  all,
  type ComponentResource,
  Config,
  getOrganization,
  getProject,
  getStack,
  type Input,
  output,
  type Output,
  Resource,
  type URN,
} from "@pulumi/pulumi";
import { defaultNamespace, type ClusterEnvironment } from "../provider/handlers/open-cluster.ts";
import { RametError } from "../src/base/errors.ts";
import { knownValue } from "./await.ts";
import { runError } from "./run-error.ts";

/** Name and namespace of an object. */
export interface PlacementArgs {
  /** The object's name in the cluster. @default the resource's name */
  name?: Input<string>;
  /**
   * The object's namespace.
   * @default the stack's `kubernetes:namespace`, else the namespace of the kubeconfig's context, else `default`
   */
  namespace?: Input<string>;
}

export interface Placement {
  name: Output<string>;
  namespace: Output<string>;
}

export function placementOf(resourceName: string, args: PlacementArgs): Placement {
  return { name: output(args.name ?? resourceName), namespace: output(args.namespace ?? fallbackNamespace()) };
}

/** The namespace that Pulumi's Kubernetes provider uses by default. A preview works without a kubeconfig. */
function fallbackNamespace(): Promise<string> {
  return defaultNamespace(programEnvironment()).catch(() => "default");
}

/**
 * The placement of an object that is made from another object, which must be in the same namespace, and is its default.
 * @param from the source. If it is a resource in another namespace, the returned output fails with a RunError
 * @param template the same for its template
 */
export function placementBeside(
  resourceName: string,
  args: PlacementArgs,
  from: unknown,
  template?: unknown,
): Placement {
  const beside = args.namespace === undefined && isPlaced(from) ? { ...args, namespace: from.namespace } : args;
  const { name, namespace } = placementOf(resourceName, beside);
  const besideSource = inNamespaceOf(from, namespace, [resourceName, "source"]);
  return { name, namespace: inNamespaceOf(template, besideSource, [resourceName, "template"]) };
}

function inNamespaceOf(other: unknown, namespace: Output<string>, [resourceName, what]: [string, string]) {
  if (!isPlaced(other)) return namespace;
  return all([namespace, other.namespace]).apply(([own, others]) => {
    if (own === others) return own;
    const why = `${resourceName} is in the namespace ${own}, but its ${what} is in the namespace ${others}`;
    throw runError(new RametError("InvalidArgument", why, { hint: "Use the same namespace for both" }));
  });
}

/** The placement for the provider process, which has a default namespace itself. */
export function typedPlacement({ namespace }: PlacementArgs, placement: Placement, from?: unknown): Partial<Placement> {
  return namespace === undefined && !isPlaced(from) ? { name: placement.name } : placement;
}

function isPlaced(from: unknown): from is Pick<Placement, "namespace"> {
  return Resource.isInstance(from) && "namespace" in from;
}

/** Identifies the resource and stack that declare an object, so that a second declaration is rejected. */
export function ownerOf(resourceName: string): string {
  return [organization(), getProject(), getStack(), resourceName].join("/");
}

/** A program of `setMocks` has none, as one of a backend without organizations, which Pulumi calls `organization`. */
export function organization(): string {
  try {
    return getOrganization();
  } catch {
    return "organization";
  }
}

/** The `ownerOf` a component under its current name, followed by its earlier names from its aliases. */
export async function ownersOf(component: ComponentResource, name: string): Promise<[string, ...string[]]> {
  const { __aliases: aliases } = component as unknown as Aliased;
  const urns = await Promise.all(aliases.map(knownValue));
  return [ownerOf(name), ...urns.flatMap((urn) => (urn === undefined ? [] : ownerOfUrn(urn)))];
}

/** `urn:pulumi:STACK::PROJECT::TYPE::NAME` */
function ownerOfUrn(urn: URN): string {
  const [stack = "", project = "", , ...name] = urn.replace(/^urn:pulumi:/, "").split("::");
  return [organization(), project, stack, name.join("::")].join("/");
}

/** A member of every Pulumi resource that its types leave out: its aliases as URNs. */
interface Aliased {
  __aliases: Input<URN>[];
}

/** The settings that select the program's cluster, as Pulumi's Kubernetes provider reads them. */
export function programEnvironment(): ClusterEnvironment {
  const configuration = new Config("kubernetes");
  const get = (key: string): string | undefined => configuration.get(key.replace(/^kubernetes:/, ""));
  return { configuration: { get }, environment: process.env };
}
