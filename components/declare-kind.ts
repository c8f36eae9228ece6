import { apiextensions } from "@pulumi/kubernetes";
import { output, type ComponentResource, type Input, type Output } from "@pulumi/pulumi";
import type { Manifest } from "../src/install/manifest.ts";

/** What a component for one object of Ramet's kinds lets a program change. */
export interface ObjectTransform {
  /** Given the whole object as it would be declared, with labels and annotations, answers the one to declare. Name and namespace stay. */
  object?: (manifest: Manifest) => Manifest;
}

export interface DeclaredKind {
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
