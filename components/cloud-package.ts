import type { CustomResourceOptions, Inputs } from "@pulumi/pulumi";
import { RametError } from "../src/base/errors.ts";
import { runError } from "./run-error.ts";

/**
 * Loads a module of a cloud's Pulumi package on demand. The package is a dependency of the program, needed only for its
 * cloud.
 * @throws RunError naming the package if it is not installed
 */
export async function cloudPackage<T>(name: string, load: () => Promise<{ default: T }>): Promise<T> {
  try {
    return (await load()).default;
  } catch (error) {
    if (!isNotFound(error)) throw error;
    const what = `The package ${name}, which this cloud needs, is not installed`;
    throw runError(
      new RametError("NotFound", what, { hint: `In the program's directory, run: npm install ${name}`, cause: error }),
    );
  }
}

function isNotFound(error: unknown): boolean {
  if (!(error instanceof Error) || !("code" in error)) return false;
  return error.code === "ERR_MODULE_NOT_FOUND" || error.code === "MODULE_NOT_FOUND";
}

/** A resource of a cloud's Pulumi package before it is declared. */
export interface CloudResource {
  /** The type token, such as `azure-native:storage:StorageAccount`. */
  type: string;
  /** The resource's name, which starts with the component's name, such as `snapshots-store`. */
  name: string;
  inputs: Inputs;
}

/** Returns the complete inputs to declare the resource with. */
export type CloudTransform = (resource: CloudResource) => Inputs;

/** Resource options with which Pulumi applies the transform to each resource. */
export function transformOptions(transform: CloudTransform | undefined): CustomResourceOptions {
  if (transform === undefined) return {};
  return {
    transformations: [({ type, name, props, opts }) => ({ props: transform({ type, name, inputs: props }), opts })],
  };
}
