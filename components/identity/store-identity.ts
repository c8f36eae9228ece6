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

/** How long a bucket keeps incomplete uploads and what was deleted: longer than any capture, and than it takes to restore by hand. */
export const remainsDays = 7;

export interface StoreIdentityArgs {
  /** Changes the cloud resources, for settings that have no argument. */
  transform?: { cloud?: CloudTransform };
}

/** Resources of a cloud, by kind and name. */
export type CloudResources = Record<string, CustomResource>;

/** How a cloud gives the controllers access to a bucket. */
interface CloudIdentity<Args> {
  /** The type of the component. */
  type: string;
  create: (name: string, args: Args, options: CustomResourceOptions) => Promise<CloudResources>;
  /** The store for the argument `store` of a `RametRuntime`. */
  storeOf: (args: Args, created: Promise<CloudResources>) => RametStore;
}

/** The cloud resources that give Ramet's controllers access to an existing bucket. */
export abstract class StoreIdentity<Args extends StoreIdentityArgs> extends ComponentResource<CloudResources> {
  /**
   * The store with its identity, for the argument `store` of a `RametRuntime`. Known once all resources exist that the
   * controllers need.
   */
  declare readonly store: RametStore;
  /** The declared resources, by kind and name. */
  declare readonly nodes: { objects: Promise<Record<string, CustomResource>> };

  // Functions cannot be part of the state, so `initialize` does not receive them. They are set after the first await there.
  readonly #transform: CloudTransform | undefined;
  readonly #cloud: CloudIdentity<Args>;

  protected constructor(cloud: CloudIdentity<Args>, name: string, args: Args, opts: ComponentResourceOptions) {
    const { transform, ...inputs } = args;
    super(cloud.type, name, { ...inputs, name }, opts);
    this.#transform = transform?.cloud;
    this.#cloud = cloud;
    const objects = this.getData();
    this.nodes = { objects };
    this.store = cloud.storeOf(args, objects);
    this.registerOutputs({ store: this.store });
  }

  protected override async initialize(args: Args & { name: string }): Promise<CloudResources> {
    await new Promise((resolve) => this.urn.apply(resolve));
    return this.#cloud.create(args.name, args, { parent: this, ...transformOptions(this.#transform) });
  }
}

/** A value of the store that is known once its identity, permissions and bucket exist. */
export function whenStored<T>(
  made: Promise<CloudResources>,
  select: (resources: CloudResources) => Output<T>,
): Output<T> {
  return output(made).apply((resources) => {
    const ofStore = Object.keys(resources).filter((key) => key.includes("/store"));
    return all([select(resources), all(ofStore.map((key) => resources[key]?.id))]).apply(([known]) => known as T);
  });
}
