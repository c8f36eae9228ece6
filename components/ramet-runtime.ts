import {
  ComponentResource,
  type ComponentResourceOptions,
  type CustomResource,
  type Input,
  log,
  output,
  type Output,
  secret,
} from "@pulumi/pulumi";
import { ownerAnnotation } from "../provider/handlers/owner.ts";
import { findRuntime } from "../provider/handlers/runtime/find-runtime.ts";
import { planRuntime, type RuntimeMode } from "../provider/handlers/runtime/plan-runtime.ts";
import { systemNamespace } from "../src/api/names/system-names.ts";
import { RametError } from "../src/base/errors.ts";
import type { InstallOptions } from "../src/install/install-options.ts";
import { type Manifest, privateRanges } from "../src/install/manifest.ts";
import { lastingManifests, serverManifests, storeIsNotMounted } from "../src/install/manifests.ts";
import { declareAll, declareRetained, declareObject } from "./declare.ts";
import { inspectCluster } from "./inspect-cluster.ts";
import { ownersOf } from "./placement.ts";
import { installedStore, type RametStore } from "./ramet-store.ts";
import { validatedField, runError, withRunError } from "./run-error.ts";

export interface RametRuntimeArgs {
  /** Where checkpoints are kept: in a bucket, or in a folder. Controllers that are adopted keep the store that they were started with. */
  store: RametStore;
  /**
   * `install` declares the controllers, `adopt` takes those that run, and `auto` adopts where something else than a program has
   * started them; those that another resource of a program declares are adopted by `adopt` alone. @default "auto"
   */
  mode?: RuntimeMode;
  /** The image with the command `ramet`, of controllers and gateways. Needed to install. */
  image?: Input<string>;
  /** The image of the cell, in which sandboxes run. Needed to install. */
  cellImage?: Input<string>;
  /**
   * The kubeconfig, as text, of the cluster to look at, for a program that makes its cluster or a provider of its own.
   * @default as Pulumi's Kubernetes provider finds it by itself
   */
  kubeconfig?: Input<string>;
  /** How many controllers stand by; one of them works. @default 2 */
  replicas?: Input<number>;
  /** How many gateways carry traffic to ports of sandboxes; 0: none. @default 2 */
  gatewayReplicas?: Input<number>;
  /**
   * IPv4 ranges of the cluster's Pods, Services and nodes, which sandboxes do not reach; `[]` lets them reach all.
   * @default the private ranges: 10.0.0.0/8, 100.64.0.0/10, 172.16.0.0/12 and 192.168.0.0/16
   */
  clusterRanges?: readonly Input<string>[];
  /** Changes each object that is declared, for what no argument says. */
  transform?: { object?: (manifest: Manifest) => Manifest };
}

type ProgramInstallOptions = InstallOptions<Input<string>, Input<number>>;

interface Found {
  mode: "install" | "adopt";
  /** What is declared, by kind and name. */
  objects: Record<string, CustomResource>;
}

/** Ramet's controllers and gateways in a cluster: what all other resources need. */
export class RametRuntime extends ComponentResource<Found> {
  /** What was done: `install` or `adopt`. */
  declare readonly mode: Output<"install" | "adopt">;
  /** The objects that it stands for, by kind and name; none where the controllers were adopted. */
  declare readonly nodes: { objects: Promise<Record<string, CustomResource>> };

  /** A state has no room for a function, so `initialize` is not given it; it is there once that has awaited something. */
  readonly #transform: RametRuntimeArgs["transform"];

  constructor(name: string, args: RametRuntimeArgs, opts: ComponentResourceOptions = {}) {
    const { transform, kubeconfig, ...inputs } = args;
    // What `initialize` gets is written into the state.
    const kept = kubeconfig === undefined ? {} : { kubeconfig: secret(kubeconfig) };
    super("ramet:index:RametRuntime", name, { ...inputs, ...kept, name }, opts);
    this.#transform = transform;
    const found = this.getData();
    this.mode = output(found.then(({ mode }) => mode));
    this.nodes = { objects: found.then(({ objects }) => objects) };
    this.registerOutputs({ mode: this.mode });
  }

  /** Whoever depends on the component waits for this. */
  protected override async initialize(args: RametRuntimeArgs & { name: string }): Promise<Found> {
    // Once it has its URN, what it depends on is there: the controllers that it is to adopt, say.
    await new Promise((resolve) => this.urn.apply(resolve));
    const owners = await ownersOf(this, args.name);
    const { mode = "auto", kubeconfig } = args;
    const facts = await inspectCluster(this, {
      find: findRuntime,
      kubeconfig,
      without: "whether controllers run is not known",
    });
    const planned = facts === undefined ? unseen(args) : withRunError(() => planRuntime(mode, facts, owners));
    return { mode: planned, objects: planned === "install" ? this.#install(args, owners[0]) : {} };
  }

  #install(args: RametRuntimeArgs & { name: string }, owner: string): Found["objects"] {
    const options = installOptions(args, owner);
    const component = { name: args.name, transform: this.#transform, parent: this };
    const lasting = declareAll(component, lastingManifests(options), declareRetained);
    const others = declareAll(component, serverManifests(options), declareObject, Object.values(lasting));
    if ("claim" in options.store) void log.warn(storeIsNotMounted, this);
    return { ...lasting, ...others };
  }
}

/** What a preview shows of a cluster that it cannot see: who gives what an installation needs, means to have one. */
function unseen({ mode = "auto", image, cellImage, store }: RametRuntimeArgs): Found["mode"] {
  if (mode !== "auto") return mode;
  const isEnough = image !== undefined && cellImage !== undefined && installedStore(store) !== undefined;
  return isEnough ? "install" : "adopt";
}

/** @throws RunError naming what is missing */
function installOptions(
  { image, cellImage, replicas = 2, gatewayReplicas = 2, store, clusterRanges = privateRanges }: RametRuntimeArgs,
  owner: string,
): ProgramInstallOptions {
  const place = installedStore(store);
  if (image === undefined || cellImage === undefined || place === undefined) {
    const why =
      "No controllers run in this cluster, and to install them image, cellImage and a store are needed: a bucket, or store.directory with store.claim";
    const hint = "Or start them otherwise, on one machine with ramet local up; then they are adopted";
    throw runError(new RametError("InvalidArgument", why, { hint }));
  }
  return {
    image: validatedField("image", image),
    cellImage: validatedField("cellImage", cellImage),
    replicas: validatedField("replicas", replicas),
    gatewayReplicas: validatedField("gatewayReplicas", gatewayReplicas),
    clusterRanges: clusterRanges.map((range) => validatedField("clusterRanges", range)),
    store: place,
    namespace: systemNamespace,
    annotations: { [ownerAnnotation]: owner },
  };
}
