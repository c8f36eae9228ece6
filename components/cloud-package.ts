import type { CustomResourceOptions, Inputs } from "@pulumi/pulumi";
import { RametError } from "../src/base/errors.ts";
import { runError } from "./run-error.ts";

/**
 * A part of a cloud's package, which is loaded when its cloud is named and not before: it is one of a program's own packages.
 * @throws RunError naming the package, where it is not installed
 */
export async function cloudPackage<T>(name: string, load: () => Promise<{ default: T }>): Promise<T> {
  try {
    return (await load()).default;
  } catch (error) {
    if (!isNotFound(error)) throw error;
    const what = `The package ${name} is needed for this cloud, and is not installed`;
    throw runError(
      new RametError("NotFound", what, { hint: `In the program's folder: npm install ${name}`, cause: error }),
    );
  }
}

function isNotFound(error: unknown): boolean {
  if (!(error instanceof Error) || !("code" in error)) return false;
  return error.code === "ERR_MODULE_NOT_FOUND" || error.code === "MODULE_NOT_FOUND";
}

/** A resource of a cloud's own package, before it is declared. */
export interface CloudResource {
  /** Such as `azure-native:storage:StorageAccount`. */
  type: string;
  /** Such as `snapshots-store`, which begins with the component's own. */
  name: string;
  inputs: Inputs;
}

/** Answers the inputs of the resource: all of them. */
export type CloudTransform = (request: CloudResource) => Inputs;

/** Pulumi applies it to each resource that is declared with these options. */
export function transformOptions(transform: CloudTransform | undefined): CustomResourceOptions {
  if (transform === undefined) return {};
  return {
    transformations: [({ type, name, props, opts }) => ({ props: transform({ type, name, inputs: props }), opts })],
  };
}
