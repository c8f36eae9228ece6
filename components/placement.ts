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

/** Where an object goes, and what it is called there. */
export interface PlacementArgs {
  /** The object's name in the cluster. @default the resource's name */
  name?: Input<string>;
  /** Its namespace. @default the stack's `kubernetes:namespace`, else that of the kubeconfig's context, else `default` */
  namespace?: Input<string>;
}

export interface Placement {
  name: Output<string>;
  namespace: Output<string>;
}

export function placementOf(resourceName: string, args: PlacementArgs): Placement {
  return { name: output(args.name ?? resourceName), namespace: output(args.namespace ?? fallbackNamespace()) };
}

/** Where Pulumi's Kubernetes provider puts what names no namespace. A preview goes on without a kubeconfig. */
function fallbackNamespace(): Promise<string> {
  return defaultNamespace(programEnvironment()).catch(() => "default");
}

/**
 * Of what is made from another object, which has to be in the same namespace: nothing of another one can be reached.
 * @param from what it is made from, where that is a resource of the program; in an output that is refused, a RunError is thrown
 */
export function placementBeside(resourceName: string, args: PlacementArgs, from: unknown): Placement {
  const placement = placementOf(resourceName, args);
  if (!isPlaced(from)) return placement;
  const namespace = all([placement.namespace, from.namespace]).apply(([own, others]) => {
    if (own === others) return own;
    const why = `${resourceName} would be in the namespace ${own}, and what it is made from is in ${others}`;
    throw runError(new RametError("InvalidArgument", why, { hint: "Give both the same namespace" }));
  });
  return { ...placement, namespace };
}

function isPlaced(from: unknown): from is Pick<Placement, "namespace"> {
  return Resource.isInstance(from) && "namespace" in from;
}

/** Which resource of which stack declares an object, so that a second one is refused. */
export function ownerOf(resourceName: string): string {
  return [getOrganization(), getProject(), getStack(), resourceName].join("/");
}

/** `ownerOf` a component as it is called now, and after that as its aliases say that it was called before. */
export async function ownersOf(component: ComponentResource, name: string): Promise<[string, ...string[]]> {
  const { __aliases: aliases } = component as unknown as Aliased;
  const urns = await Promise.all(aliases.map(knownValue));
  return [ownerOf(name), ...urns.flatMap((urn) => (urn === undefined ? [] : ownerOfUrn(urn)))];
}

/** `urn:pulumi:STACK::PROJECT::TYPE::NAME` */
function ownerOfUrn(urn: URN): string {
  const [stack = "", project = "", , ...name] = urn.replace(/^urn:pulumi:/, "").split("::");
  return [getOrganization(), project, stack, name.join("::")].join("/");
}

/** What every resource of Pulumi's has, beside what its types tell: its aliases, as URNs. */
interface Aliased {
  __aliases: Input<URN>[];
}

/** Where the program's cluster is found: by the stack's configuration, as Pulumi's Kubernetes provider does by itself. */
export function programEnvironment(): ClusterEnvironment {
  const configuration = new Config("kubernetes");
  const get = (key: string): string | undefined => configuration.get(key.replace(/^kubernetes:/, ""));
  return { configuration: { get }, environment: process.env };
}
