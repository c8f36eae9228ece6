import { apiextensions, core } from "@pulumi/kubernetes";
import {
  type ComponentResource,
  type CustomResource,
  type CustomResourceOptions,
  type Input,
  type Output,
  type Resource,
  log,
  output,
} from "@pulumi/pulumi";
import { describeIgnored, findIgnored } from "../src/api/fields/find-ignored.ts";
import { isAccepting } from "../src/api/fields/ignored-fields.ts";
import { digestOf } from "../src/api/schema/digest.ts";
import type { Manifest } from "../src/install/manifest.ts";
import { waitForConditions, waitTimeout } from "./await.ts";
import { RametResource, hasRametProvider } from "./ramet-resource.ts";

export interface DeclaringComponent {
  /** The component's name, a prefix of the names of its resources. */
  name: string;
  parent: Resource;
  transform?: { object?: (manifest: Manifest) => Manifest } | undefined;
  /** The namespaces that have objects of the same names as others: the names of their resources contain the namespace. */
  servedNamespaces?: readonly string[] | undefined;
}

/** Declares the objects of a component. Returns them by kind and name, with the namespace in between if it is a served one. */
export function declareAll(
  { name, parent, transform, servedNamespaces = [] }: DeclaringComponent,
  manifests: readonly Manifest[],
  declare: typeof declareObject,
  dependsOn: CustomResource[] = [],
): Record<string, CustomResource> {
  const declared = manifests.map((manifest): [string, CustomResource] => {
    const { name: objectName, namespace = "" } = manifest.metadata;
    const isServed = servedNamespaces.includes(namespace);
    const key = `${manifest.kind}/${isServed ? `${namespace}/${objectName}` : objectName}`;
    return [key, declare(`${name}-${key}`, transform?.object?.(manifest) ?? manifest, { parent, dependsOn })];
  });
  return Object.fromEntries(declared);
}

/** Declares an object from its manifest. */
export function declareObject(name: string, manifest: Manifest, options: CustomResourceOptions): CustomResource {
  const Declared = coreKinds[manifest.kind] ?? apiextensions.CustomResource;
  return new Declared(name, manifest, options);
}

/**
 * Declares an object that outlives the program and is reused by a later one. It is declared as a patch, which creates a
 * missing object; Pulumi's Kubernetes provider refuses to create any other object that exists.
 */
export function declareRetained(name: string, manifest: Manifest, options: CustomResourceOptions): CustomResource {
  const Declared = retainedKinds[manifest.kind];
  if (Declared === undefined) throw new Error(`cannot retain objects of kind ${manifest.kind}`);
  // Its fields may belong to the field manager of an earlier program.
  const annotations = { ...manifest.metadata.annotations, "pulumi.com/patchForce": "true" };
  const forced = { ...manifest, metadata: { ...manifest.metadata, annotations } };
  return new Declared(name, forced, { ...options, retainOnDelete: true });
}

type ObjectClass = new (name: string, manifest: Manifest, options: CustomResourceOptions) => CustomResource;

/**
 * The provider has no generic class for the core group. The arguments of these classes are manifests with narrower
 * types.
 */
const coreKinds = {
  Service: core.v1.Service,
  ServiceAccount: core.v1.ServiceAccount,
} as unknown as Record<string, ObjectClass | undefined>;

const retainedKinds = {
  ConfigMap: core.v1.ConfigMapPatch,
  CustomResourceDefinition: apiextensions.v1.CustomResourceDefinitionPatch,
  Namespace: core.v1.NamespacePatch,
} as unknown as Record<string, ObjectClass | undefined>;

/** Changes the object that a component declares. */
export interface ObjectTransform {
  /**
   * Receives the complete manifest, including labels and annotations, and returns the one to declare. Must keep name
   * and namespace.
   */
  object?: (manifest: Manifest) => Manifest;
}

export interface DeclaredKind {
  object: apiextensions.CustomResource;
  /** The spec as declared, after the transform. */
  spec: Output<Record<string, unknown>>;
}

interface ObjectInputs {
  metadata: Input<Record<string, unknown>>;
  spec: Input<Record<string, unknown>>;
}

/** Declares the single object of a component. */
export function declareKind(
  parent: ComponentResource,
  name: string,
  { apiVersion, kind }: { apiVersion: string; kind: string },
  { transform, ...inputs }: ObjectInputs & { transform: ObjectTransform | undefined },
): DeclaredKind {
  const object = transform?.object;
  const { metadata, spec } = object === undefined ? inputs : transformed({ apiVersion, kind }, inputs, object);
  const args = { apiVersion, kind, metadata, spec };
  warnOfIgnored(parent, kind, { metadata, spec });
  return {
    object: new apiextensions.CustomResource(name, args, { parent }),
    spec: output(spec) as unknown as Output<Record<string, unknown>>,
  };
}

/** Warns of fields without effect, in a preview too. Where that needs values which only an update knows, the update warns. */
function warnOfIgnored(parent: ComponentResource, kind: string, { metadata, spec }: ObjectInputs): void {
  if (!isAccepting(kind)) return;
  output({ metadata, spec }).apply((manifest) => {
    const found = findIgnored(kind, manifest);
    // Beside other controllers, these decide.
    if (found.length > 0) void log.warn(`With Ramet's controllers, ${describeIgnored(found)}`, parent);
  });
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

interface AwaitedObject {
  kind: "Sandbox" | "SandboxSet";
  /** The conditions that must be true. */
  conditions: string[];
  timeout: Input<string> | undefined;
}

/**
 * The annotations that make Pulumi's Kubernetes provider wait, for a component that has its own provider and no `Provider` of Ramet. A
 * dynamic resource cannot see a provider, so otherwise `awaitReady` waits, which ends when the controllers give up.
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
  const { name: objectName, namespace, uid } = object.metadata;
  if (hasOwnProvider(component)) return objectName;
  const revision = output({ spec, annotations }).apply(digestOf);
  const awaited = { kind, name: objectName, namespace, revision, uid, timeout };
  return new Readiness(component, `${name}-ready`, awaited).name;
}

/**
 * Keeps in the state in which cluster the objects of a component are, because Pulumi's Kubernetes provider does not: in another cluster,
 * its preview says that all are unchanged. The cluster of a component with its own provider is not known.
 */
export function rememberCluster(component: ComponentResource, name: string): void {
  if (hasOwnProvider(component)) return;
  const kubeSystem = { name: "kube-system", namespace: "kube-system" };
  new Readiness(component, `${name}-cluster`, { kind: "Cluster", ...kubeSystem, revision: "", timeout: "10 minutes" });
}

function hasOwnProvider(component: ComponentResource): boolean {
  return component.getProvider("kubernetes:core:v1") !== undefined && !hasRametProvider(component);
}

interface ReadinessArgs {
  /** The kind of the object. Cluster: nothing is awaited, and another cluster is refused. */
  kind: Input<"Sandbox" | "SandboxSet" | "Cluster">;
  /** The object's name in the cluster. @default the resource's name */
  name?: Input<string>;
  /** The object's namespace. @default that of the provider */
  namespace?: Input<string>;
  /** Any text that changes with the object, which is then awaited again. @default none */
  revision?: Input<string>;
  /** The UID of the object. Another object of the name is awaited again. @default not compared */
  uid?: Input<string>;
  /** How long to wait, such as `"30 minutes"`. The wait ends earlier if the sandboxes do not start. @default "10 minutes" */
  timeout?: Input<string>;
}

/** Waits until a Sandbox, or all sandboxes of a SandboxSet, are ready. Its state has the cluster. */
class Readiness extends RametResource {
  declare readonly name: Output<string>;

  constructor(parent: ComponentResource, name: string, props: ReadinessArgs) {
    super("Readiness", name, { outputs: [], dynamic: props, typed: props }, { parent });
  }
}
