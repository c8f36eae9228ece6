import { Config, getOrganization, getProject, getStack, type Input, type Output, output } from "@pulumi/pulumi";

/** Where an object goes, and what it is called there. */
export interface PlacementArgs {
  /** The object's name in the cluster. @default the resource's name */
  name?: Input<string>;
  /** Its namespace. @default the stack's `kubernetes:namespace`, else `default` */
  namespace?: Input<string>;
}

export interface Placement {
  name: Output<string>;
  namespace: Output<string>;
}

export function placementOf(resourceName: string, args: PlacementArgs): Placement {
  const namespace = args.namespace ?? new Config("kubernetes").get("namespace") ?? "default";
  return { name: output(args.name ?? resourceName), namespace: output(namespace) };
}

/** Which resource of which stack declares an object, so that a second one is refused. */
export function ownerOf(resourceName: string): string {
  return [getOrganization(), getProject(), getStack(), resourceName].join("/");
}
