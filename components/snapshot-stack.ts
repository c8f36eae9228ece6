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
import { ownerAnnotation } from "../provider/handlers/owner.ts";
import { findStack } from "../provider/handlers/snapshot-stack/find-stack.ts";
import { throwOnErrors, type Finding } from "../provider/handlers/snapshot-stack/finding.ts";
import { planStack, type StackPlan } from "../provider/handlers/snapshot-stack/plan-stack.ts";
import { summarize, type SnapshotStackFacts } from "../provider/handlers/snapshot-stack/stack-facts.ts";
import { emptyCluster, type ObservedCluster } from "../provider/handlers/snapshot-stack/observed-cluster.ts";
import type { StackRequest } from "../provider/handlers/snapshot-stack/stack-request.ts";
import { declareAll, declareRetained, declareObject } from "./declare.ts";
import { inspectCluster } from "./inspect-cluster.ts";
import { ownersOf } from "./placement.ts";
import type { RametStore } from "./ramet-store.ts";
import { runError } from "./run-error.ts";
import type { SnapshotStackArgs } from "./snapshot-stack/args.ts";
import { cloudResources, cloudStore, installedManifests } from "./snapshot-stack/cloud-resources.ts";
import { controllerManifests, crdManifests } from "./snapshot-stack/manifests.ts";
import { classManifest, type DeclaredClass } from "./snapshot-stack/snapshot-class.ts";
import { classesFor, controllerNamespace, stackRequestFor } from "./snapshot-stack/stack-request.ts";
import { transformOptions } from "./cloud-package.ts";

type Args = SnapshotStackArgs & { name: string };

interface Made {
  facts: Output<SnapshotStackFacts>;
  objects: Record<string, CustomResource>;
}

/** What snapshots of volumes need in a cluster: CRDs, a controller, classes. It looks before it declares anything. */
export class SnapshotStack extends ComponentResource<Made> {
  /** What was found: before in a preview, afterwards in an update. Not known in a preview that cannot see the cluster. */
  declare readonly facts: Output<SnapshotStackFacts>;
  /** The names of the classes that it declares. */
  declare readonly classNames: Output<string[]>;
  /** The store that the cloud was asked for, to be given to a `RametRuntime`; an empty one where none was. */
  declare readonly store: RametStore;
  /** The resources that it stands for, by kind and name. */
  declare readonly nodes: { objects: Promise<Record<string, CustomResource>> };

  /** A state has no room for a function, so `initialize` is not given it; it is there once that has awaited something. */
  readonly #transform: SnapshotStackArgs["transform"];

  constructor(name: string, args: SnapshotStackArgs, opts: ComponentResourceOptions = {}) {
    const { transform, kubeconfig, ...inputs } = args;
    // What `initialize` gets is written into the state.
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

  /** Whoever depends on the component waits for this. */
  protected override async initialize(args: Args): Promise<Made> {
    // Once it has its URN, what it depends on is there: a driver that is looked for, say.
    await new Promise((resolve) => this.urn.apply(resolve));
    const classes = classesFor(args);
    const request = stackRequestFor(await ownersOf(this, args.name), args, classes);
    const seen = await this.#look(args);
    const plan = planStack(request, seen ?? emptyCluster);
    if (seen !== undefined) this.#judge(args, plan.findings);
    const objects = await this.#declare(args, { request, plan, classes });
    return { objects, facts: this.#facts(args, request, { seen, objects }) };
  }

  #look({ cloud, kubeconfig, controller }: Args): Promise<ObservedCluster | undefined> {
    const namespace = cloud === "generic" ? (controller?.namespace ?? controllerNamespace) : undefined;
    const find = (env: ClusterEnvironment) => findStack(env, namespace);
    return inspectCluster(this, { find, kubeconfig, without: "it is taken to be empty" });
  }

  #judge({ cloud }: Args, findings: readonly Finding[]): void {
    const known = findings.filter(({ severity }) => severity === "warning");
    for (const { problem, hint } of known) void log.warn(`${problem}. ${hint}`, this);
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
    // They stay when the stack goes: with them all snapshots would.
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

  /** After an update it is looked once more, at what has come of it. */
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
