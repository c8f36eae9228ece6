import { type ComponentResource, dynamic, type Input, output, type Output } from "@pulumi/pulumi";
import { readinessProvider } from "../provider/dynamic-provider.ts";
import { digestOf } from "../src/api/schema/digest.ts";
import { waitForConditions, waitTimeout } from "./await.ts";
import type { DeclaredKind } from "./declare.ts";

export interface AwaitedObject {
  kind: "Sandbox" | "SandboxSet";
  /** The conditions that must be true. */
  conditions: string[];
  timeout: Input<string> | undefined;
}

/**
 * The annotations that make Pulumi's Kubernetes provider wait, for a component that has its own provider. A provider object is not
 * visible to dynamic resources, so only with the default provider `awaitReady` waits, which ends when the controllers give up.
 */
export function waitAnnotations(component: ComponentResource, { conditions, timeout }: AwaitedObject) {
  return hasOwnProvider(component) ? { ...waitForConditions(...conditions), ...waitTimeout(timeout) } : {};
}

/** Waits for an object of a component. Returns its name, which is known to dependents when the wait has ended. */
export function awaitReady(
  component: ComponentResource,
  name: string,
  { kind, timeout = "10 minutes" }: AwaitedObject,
  { object, spec, annotations }: DeclaredKind & { annotations: Record<string, Input<string>> },
): Output<string> {
  const { name: objectName, namespace } = object.metadata;
  if (hasOwnProvider(component)) return objectName;
  const revision = output({ spec, annotations }).apply(digestOf);
  return new Readiness(component, name, { kind, name: objectName, namespace, revision, timeout }).name;
}

function hasOwnProvider(component: ComponentResource): boolean {
  return component.getProvider("kubernetes:core:v1") !== undefined;
}

class Readiness extends dynamic.Resource {
  declare readonly name: Output<string>;

  constructor(parent: ComponentResource, name: string, props: Record<string, Input<unknown>>) {
    super(readinessProvider, `${name}-ready`, props, { parent }, "ramet", "Readiness");
  }
}
