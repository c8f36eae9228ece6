import { apiextensions, core } from "@pulumi/kubernetes";
import {
  type ComponentResource,
  type CustomResource,
  type CustomResourceOptions,
  type Input,
  output,
  type Output,
  type Resource,
} from "@pulumi/pulumi";
import type { Manifest } from "../src/install/manifest.ts";

export interface DeclaringComponent {
  /** The component's, with which the names of its resources begin. */
  name: string;
  parent: Resource;
  transform?: { object?: (manifest: Manifest) => Manifest } | undefined;
}

/** Declares what a component stands for, and answers it by kind and name. */
export function declareAll(
  { name, parent, transform }: DeclaringComponent,
  manifests: readonly Manifest[],
  declare: typeof declareObject,
  dependsOn: CustomResource[] = [],
): Record<string, CustomResource> {
  const declared = manifests.map((manifest): [string, CustomResource] => {
    const key = `${manifest.kind}/${manifest.metadata.name}`;
    return [key, declare(`${name}-${key}`, transform?.object?.(manifest) ?? manifest, { parent, dependsOn })];
  });
  return Object.fromEntries(declared);
}

/** Declares an object as its manifest has it. */
export function declareObject(name: string, manifest: Manifest, options: CustomResourceOptions): CustomResource {
  const Declared = coreKinds[manifest.kind] ?? apiextensions.CustomResource;
  return new Declared(name, manifest, options);
}

/**
 * Declares an object that stays when the program goes, and is taken up again when it comes back: as a patch, which makes it where it
 * is missing. Pulumi's Kubernetes provider refuses to make any other object that is there already.
 */
export function declareRetained(name: string, manifest: Manifest, options: CustomResourceOptions): CustomResource {
  const Declared = retainedKinds[manifest.kind];
  if (Declared === undefined) throw new Error(`no ${manifest.kind} can be declared to stay`);
  // Its fields belong to whoever declared it before, under another field manager's name.
  const annotations = { ...manifest.metadata.annotations, "pulumi.com/patchForce": "true" };
  const forced = { ...manifest, metadata: { ...manifest.metadata, annotations } };
  return new Declared(name, forced, { ...options, retainOnDelete: true });
}

type ObjectClass = new (name: string, manifest: Manifest, options: CustomResourceOptions) => CustomResource;

/** What has no group is known to the provider by classes of its own alone. Their arguments are manifests, with narrower types. */
const coreKinds = {
  Service: core.v1.Service,
  ServiceAccount: core.v1.ServiceAccount,
} as unknown as Record<string, ObjectClass | undefined>;

const retainedKinds = {
  ConfigMap: core.v1.ConfigMapPatch,
  CustomResourceDefinition: apiextensions.v1.CustomResourceDefinitionPatch,
  Namespace: core.v1.NamespacePatch,
} as unknown as Record<string, ObjectClass | undefined>;

/** What a component for one object of Ramet's kinds lets a program change. */
export interface ObjectTransform {
  /** Given the whole object as it would be declared, with labels and annotations, answers the one to declare. Name and namespace stay. */
  object?: (manifest: Manifest) => Manifest;
}

interface DeclaredKind {
  object: apiextensions.CustomResource;
  /** As it is declared. */
  spec: Output<Record<string, unknown>>;
}

interface ObjectInputs {
  metadata: Input<Record<string, unknown>>;
  spec: Input<Record<string, unknown>>;
}

/** Declares the one object that a component stands for. */
export function declareKind(
  parent: ComponentResource,
  name: string,
  { apiVersion, kind }: { apiVersion: string; kind: string },
  { transform, ...inputs }: ObjectInputs & { transform: ObjectTransform | undefined },
): DeclaredKind {
  const object = transform?.object;
  const { metadata, spec } = object === undefined ? inputs : transformed({ apiVersion, kind }, inputs, object);
  const args = { apiVersion, kind, metadata, spec };
  return {
    object: new apiextensions.CustomResource(name, args, { parent }),
    spec: output(spec) as unknown as Output<Record<string, unknown>>,
  };
}

function transformed(
  names: { apiVersion: string; kind: string },
  { metadata, spec }: ObjectInputs,
  change: (manifest: Manifest) => Manifest,
): ObjectInputs {
  const manifest = output({ metadata, spec }).apply((plain) => change({ ...names, ...plain } as unknown as Manifest));
  return {
    metadata: manifest.apply((changed) => changed.metadata as unknown as Record<string, unknown>),
    spec: manifest.apply((changed) => (changed as unknown as { spec: Record<string, unknown> }).spec),
  };
}
