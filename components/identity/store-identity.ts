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

/** The service account of Ramet's controllers, which no other may stand for. */
export const controllersAccount = { namespace: systemNamespace, serviceAccount: controllerName };

export interface StoreIdentityArgs {
  /** Changes what the cloud is asked for, for what no argument says. */
  transform?: { cloud?: CloudTransform };
}

type Made = Record<string, CustomResource>;

/** What a cloud is asked for so that Ramet's controllers may use a bucket that is there already. */
export abstract class StoreIdentity<Args extends StoreIdentityArgs> extends ComponentResource<Made> {
  /** The store and who uses it, to be given to a `RametRuntime`. It is known when all is there that the controllers need. */
  declare readonly store: RametStore;
  /** The resources that it stands for, by kind and name. */
  declare readonly nodes: { objects: Promise<Record<string, CustomResource>> };

  /** A state has no room for a function, so `initialize` is not given it; it is there once that has awaited something. */
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

/** What is told of a store, known when everything of what was made is there that its users need: identity, rights, and the bucket. */
export function whenStored<T>(
  made: Promise<Record<string, CustomResource>>,
  describeStore: (resources: Record<string, CustomResource>) => Output<T>,
): Output<T> {
  return output(made).apply((resources) => {
    const ofStore = Object.keys(resources).filter((key) => key.includes("/store"));
    return all([describeStore(resources), all(ofStore.map((key) => resources[key]?.id))]).apply(
      ([known]) => known as T,
    );
  });
}
