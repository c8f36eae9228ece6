import {
  Config,
  CustomResource,
  type CustomResourceOptions,
  type Input,
  type Inputs,
  mergeOptions,
  ProviderResource,
  type Resource,
  type ResourceOptions,
  secret,
} from "@pulumi/pulumi";
import { RametError } from "../src/base/errors.ts";
import { defined } from "../src/base/defined.ts";
import { organization } from "./placement.ts";
import { runError } from "./run-error.ts";

/** The cluster of a `Provider`. */
export interface ProviderArgs {
  /** The kubeconfig: its text, or a path. @default `KUBECONFIG`, `~/.kube/config` or the Pod's service account */
  kubeconfig?: Input<string>;
  /** Its context. @default the current one */
  context?: Input<string>;
  /** Its cluster. @default that of the context */
  cluster?: Input<string>;
  /** The namespace of resources without one. @default that of the context */
  namespace?: Input<string>;
  /** The UID of `kube-system` in a cluster that no longer exists, whose resources the state then forgets. */
  forgetCluster?: Input<string>;
}

/**
 * The cluster of named snapshots, clones and API keys, in a program that creates the cluster or uses several. Components take it by
 * `providers`. Needs the plugin, which `Pulumi.yaml` names.
 */
export class Provider extends ProviderResource {
  constructor(name: string, args: ProviderArgs = {}, opts?: ResourceOptions) {
    const { kubeconfig, ...rest } = args;
    const secrets = defined({ kubeconfig: kubeconfig === undefined ? undefined : secret(kubeconfig) });
    super("ramet", name, { ...rest, ...secrets, organization: organization() }, opts);
  }
}

/** The inputs of a resource in both processes that can serve it. */
export interface ResourceInputs {
  /** The outputs, which are unknown before they are made. */
  outputs: readonly string[];
  /** For Pulumi's process for dynamic resources, which knows the shape of the object. */
  dynamic: Inputs;
  /** For the provider process, by the schema. */
  typed: Inputs;
}

/**
 * A resource whose handler is the same in two processes. With a `Provider`, it is one of Ramet's provider process, and takes over a
 * state of the other one. Otherwise it is a dynamic resource, for which a program needs no plugin, in the cluster of the stack.
 */
export abstract class RametResource extends CustomResource {
  constructor(
    className: keyof typeof subpaths,
    name: string,
    inputs: ResourceInputs,
    opts: CustomResourceOptions = {},
  ) {
    const outputs = Object.fromEntries(inputs.outputs.map((output) => [output, undefined]));
    const dynamicType = `pulumi-nodejs:dynamic/ramet:${className}`;
    if (hasProvider(opts, className)) {
      const renamed = mergeOptions(opts, { aliases: [{ type: dynamicType }] });
      super(`ramet:index:${className}`, name, { ...outputs, ...inputs.typed }, renamed);
    } else {
      super(dynamicType, name, { ...outputs, ...inputs.dynamic, __provider: providerText(subpaths[className]) }, opts);
    }
  }
}

/** The subpaths that the package must always export: existing states load them. */
const subpaths = {
  ApiKey: "ramet/provider/api-key",
  NamedSnapshot: "ramet/provider/named-snapshot",
  Readiness: "ramet/provider/readiness",
  SandboxClone: "ramet/provider/sandbox-clone",
} as const;

/** @throws RunError if the provider is that of other resources */
function hasProvider({ provider, parent }: CustomResourceOptions, className: string): boolean {
  if (provider === undefined) return parent !== undefined && hasRametProvider(parent);
  if (provider instanceof Provider) return true;
  const what = `The provider of a ${className} is one of another package`;
  throw runError(new RametError("InvalidArgument", what, { hint: "Use a Provider of the package ramet for it" }));
}

/** Whether resources of the provider process are children of a component: also without a `Provider` if that process declares it. */
export function hasRametProvider(component: Resource): boolean {
  const isHosted = new Config("ramet").get("hosted") !== undefined;
  return isHosted || component.getProvider("ramet:index:Readiness") !== undefined;
}

/**
 * The text that Pulumi writes into the state for a dynamic resource, and evaluates as CommonJS in another process, where it calls
 * `configure` first. It is what Pulumi makes of a function with that `require`; here it is a constant, so that no other version of
 * Pulumi makes another text of it, which every user's next preview would show as a change.
 */
function providerText(subpath: string): string {
  return `exports.handler = __f0;

var __provider = {configure: __f1};

function __f1(__0) {
  return (function() {
    with({ this: undefined, arguments: undefined }) {

return function /*configure*/(request) {
    Object.assign(this, require("${subpath}").provider(request.config));
  };

    }
  }).apply(undefined, undefined).apply(this, arguments);
}

function __f0() {
  return (function() {
    with({ provider: __provider, this: undefined, arguments: undefined }) {

return () => provider;

    }
  }).apply(undefined, undefined).apply(this, arguments);
}
`;
}
