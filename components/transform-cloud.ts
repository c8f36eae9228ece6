import type { CustomResourceOptions, Inputs } from "@pulumi/pulumi";

/** A resource of a cloud's own package, before it is declared. */
export interface CloudWish {
  /** Such as `azure-native:storage:StorageAccount`. */
  type: string;
  /** Such as `snapshots-store`, which begins with the component's own. */
  name: string;
  inputs: Inputs;
}

/** Answers the inputs of the resource: all of them. */
export type CloudTransform = (wish: CloudWish) => Inputs;

/** Pulumi applies it to each resource that is declared with these options. */
export function transforming(transform: CloudTransform | undefined): CustomResourceOptions {
  if (transform === undefined) return {};
  return {
    transformations: [({ type, name, props, opts }) => ({ props: transform({ type, name, inputs: props }), opts })],
  };
}
