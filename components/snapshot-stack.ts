import {
  all,
  ComponentResource,
  log,
  output,
  runtime,
  secret,
  unknown as unknownYet,
  type ComponentResourceOptions,
  type CustomResource,
  type Output,
} from "@pulumi/pulumi";
import type { ClusterEnvironment } from "../provider/handlers/open-cluster.ts";
import { ownerAnnotation } from "../src/api/names/labels.ts";
import { findStack } from "../provider/handlers/snapshot-stack/find-stack.ts";
import { planStack, type StackPlan, throwOnErrors } from "../provider/handlers/snapshot-stack/stack-findings.ts";
import { summarize, type SnapshotStackFacts } from "../provider/handlers/snapshot-stack/stack-facts.ts";
import { emptyCluster, type ObservedCluster } from "../provider/handlers/snapshot-stack/observed-cluster.ts";
import type { StackRequest } from "../provider/handlers/snapshot-stack/stack-parts.ts";
import { declareAll, declareRetained, declareObject, rememberCluster } from "./declare.ts";
import { inspectCluster } from "./inspect-cluster.ts";
import { ownersOf } from "./placement.ts";
import type { RametStore } from "./ramet-store.ts";
import { runError } from "./run-error.ts";
import { type SnapshotStackArgs, classesFor, controllerNamespace, stackRequestFor } from "./snapshot-stack/args.ts";
import { cloudResources, cloudStore, installedManifests } from "./snapshot-stack/cloud-resources.ts";
import { controllerManifests, crdManifests } from "./snapshot-stack/manifests.ts";
import { classManifest, type DeclaredClass } from "./snapshot-stack/snapshot-class.ts";
import { transformOptions } from "./cloud-package.ts";

type Args = SnapshotStackArgs & { name: string };

interface Made {
  facts: Output<SnapshotStackFacts>;
  objects: Record<string, CustomResource>;
}

/**
 * The parts that volume snapshots need in a cluster: CRDs, a controller and classes. Reads the cluster before it
 * declares anything.
 */
export class SnapshotStack extends ComponentResource<Made> {
  /**
   * The state of the cluster: before the changes in a preview, after them in an update. Unknown in a preview that
   * cannot read the cluster.
   */
  declare readonly facts: Output<SnapshotStackFacts>;
  /** The names of the declared VolumeSnapshotClasses. */
  declare readonly classNames: Output<string[]>;
  /**
   * The store for checkpoints that the stack creates in the cloud, for the argument `store` of a `RametRuntime`. Empty
   * if none is requested.
   */
  declare readonly store: RametStore;
  /** The declared resources, by kind and name. */
  declare readonly nodes: { objects: Promise<Record<string, CustomResource>> };

  /** A function cannot be part of the state, so `initialize` does not receive it. It is set after the first await there. */
  readonly #transform: SnapshotStackArgs["transform"];

  constructor(name: string, args: SnapshotStackArgs, opts: ComponentResourceOptions = {}) {
    const { transform, kubeconfig, ...inputs } = args;
    // The arguments of `initialize` are written into the state.
    const kept = kubeconfig === undefined ? {} : { kubeconfig: secret(kubeconfig) };
    super("ramet:index:SnapshotStack", name, { ...inputs, ...kept, name }, opts);
    this.#transform = transform;
    const made = this.getData();
    this.facts = output(made.then(({ facts }) => facts));
    this.classNames = output(classesFor(args).map((request) => request.name));
    const objects = made.then((all) => all.objects);
    this.store = cloudStore(args, objects);
    this.nodes = { objects };
    this.registerOutputs({ facts: this.facts, classNames: this.classNames, store: this.store });
  }

  /** Resources that depend on the component wait for this. */
  protected override async initialize(args: Args): Promise<Made> {
    // The URN resolves after the dependencies exist, for example a driver that the stack looks for.
    await new Promise((resolve) => this.urn.apply(resolve));
    rememberCluster(this, args.name);
    const classes = classesFor(args);
    const request = stackRequestFor(await ownersOf(this, args.name), args, classes);
    const seen = await this.#look(args);
    const plan = planStack(request, seen ?? emptyCluster);
    if (seen !== undefined) this.#reportFindings(args, plan.findings);
    const objects = await this.#declare(args, { request, plan, classes });
    return { objects, facts: this.#facts(args, request, { seen, objects }) };
  }

  #look({ cloud, kubeconfig, controller }: Args): Promise<ObservedCluster | undefined> {
    const namespace = cloud === "generic" ? (controller?.namespace ?? controllerNamespace) : undefined;
    const find = (env: ClusterEnvironment) => findStack(env, namespace);
    return inspectCluster(this, { find, kubeconfig, assumption: "the preview assumes that it is empty" });
  }

  #reportFindings({ cloud }: Args, findings: StackPlan["findings"]): void {
    const known = findings.filter(({ level }) => level === "warning");
    for (const { message, action = "" } of known) void log.warn(`${message}. ${action}`, this);
    try {
      throwOnErrors(cloud, findings);
    } catch (error) {
      throw runError(error);
    }
  }

  async #declare(
    args: Args,
    { request, plan, classes }: { request: StackRequest; plan: StackPlan; classes: readonly DeclaredClass[] },
  ): Promise<Made["objects"]> {
    const annotations = { [ownerAnnotation]: request.owners[0] };
    // CRDs stay when the stack is destroyed: deleting them would delete all snapshots.
    const component = { name: args.name, transform: this.#transform, parent: this };
    const crds = declareAll(component, await crdManifests(plan, annotations), declareRetained);
    const installed = declareAll(component, installedManifests(plan.addons, annotations), declareRetained);
    const before = Object.values(installed);
    const inputs = { args, addons: plan.addons, before };
    const ofCloud = await cloudResources(args.name, inputs, {
      parent: this,
      ...transformOptions(this.#transform?.cloud),
    });
    const dependsOn = [...Object.values(crds), ...Object.values(ofCloud)];
    const others = [
      ...(await controllerManifests(plan, args, annotations)),
      ...classes.map((one) => classManifest(one, annotations)),
    ];
    return { ...crds, ...installed, ...ofCloud, ...declareAll(component, others, declareObject, dependsOn) };
  }

  /** After an update the cluster is read again for the result. */
  #facts(
    args: Args,
    request: StackRequest,
    { seen, objects }: { seen: ObservedCluster | undefined; objects: Made["objects"] },
  ): Output<SnapshotStackFacts> {
    const facts = (found: ObservedCluster): SnapshotStackFacts => summarize(found, planStack(request, found).findings);
    if (runtime.isDryRun())
      return output(seen === undefined ? (unknownYet as unknown as SnapshotStackFacts) : facts(seen));
    const ids = all(Object.values(objects).map(({ id }) => id));
    return ids.apply(async () => facts((await this.#look(args)) ?? emptyCluster));
  }
}
