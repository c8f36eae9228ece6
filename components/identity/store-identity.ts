import {
  all,
  ComponentResource,
  type ComponentResourceOptions,
  type CustomResource,
  type CustomResourceOptions,
  output,
  type Output,
} from "@pulumi/pulumi";
import { controllerName, systemNamespace } from "../../src/api/names/system-names.ts";
import { type CloudTransform, transformOptions } from "../cloud-package.ts";
import type { RametStore } from "../ramet-store.ts";

/** The Kubernetes service account of Ramet's controllers. */
export const controllersAccount = { namespace: systemNamespace, serviceAccount: controllerName };

export interface StoreIdentityArgs {
  /** Changes the cloud resources, for settings that have no argument. */
  transform?: { cloud?: CloudTransform };
}

type Made = Record<string, CustomResource>;

/** The cloud resources that give Ramet's controllers access to an existing bucket. */
export abstract class StoreIdentity<Args extends StoreIdentityArgs> extends ComponentResource<Made> {
  /**
   * The store with its identity, for the argument `store` of a `RametRuntime`. Known once all resources exist that the
   * controllers need.
   */
  declare readonly store: RametStore;
  /** The declared resources, by kind and name. */
  declare readonly nodes: { objects: Promise<Record<string, CustomResource>> };

  /** A function cannot be part of the state, so `initialize` does not receive it. It is set after the first await there. */
  readonly #transform: CloudTransform | undefined;

  constructor(type: string, name: string, { transform, ...args }: Args, opts: ComponentResourceOptions) {
    super(type, name, { ...args, name }, opts);
    this.#transform = transform?.cloud;
    const objects = this.getData();
    this.nodes = { objects };
    this.store = this.describeStore(args, objects);
    this.registerOutputs({ store: this.store });
  }

  protected override async initialize(args: Omit<Args, "transform"> & { name: string }): Promise<Made> {
    await new Promise((resolve) => this.urn.apply(resolve));
    return this.make(args.name, args, { parent: this, ...transformOptions(this.#transform) });
  }

  protected abstract make(name: string, args: Omit<Args, "transform">, options: CustomResourceOptions): Promise<Made>;
  protected abstract describeStore(args: Omit<Args, "transform">, made: Promise<Made>): RametStore;
}

/** A value of the store that is known once its identity, permissions and bucket exist. */
export function whenStored<T>(
  made: Promise<Record<string, CustomResource>>,
  select: (resources: Record<string, CustomResource>) => Output<T>,
): Output<T> {
  return output(made).apply((resources) => {
    const ofStore = Object.keys(resources).filter((key) => key.includes("/store"));
    return all([select(resources), all(ofStore.map((key) => resources[key]?.id))]).apply(([known]) => known as T);
  });
}
