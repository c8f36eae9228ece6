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
import type { Surroundings } from "../provider/handlers/open-cluster.ts";
import { ownerAnnotation } from "../provider/handlers/owner.ts";
import { findStack } from "../provider/handlers/snapshot-stack/find-stack.ts";
import { refuseFor, type Finding } from "../provider/handlers/snapshot-stack/finding.ts";
import { planStack, type StackPlan } from "../provider/handlers/snapshot-stack/plan-stack.ts";
import { factsOf, type SnapshotStackFacts } from "../provider/handlers/snapshot-stack/stack-facts.ts";
import { nothingSeen, type StackSeen } from "../provider/handlers/snapshot-stack/stack-seen.ts";
import type { StackRequest } from "../provider/handlers/snapshot-stack/stack-request.ts";
import { declareAll, declareLasting, declareObject } from "./declare-object.ts";
import { lookAt } from "./look-at.ts";
import { ownersOf } from "./placement.ts";
import type { RametStore } from "./ramet-store.ts";
import { refusal } from "./refusal.ts";
import type { SnapshotStackArgs } from "./snapshot-stack/args.ts";
import { cloudResources, cloudStore, installedManifests } from "./snapshot-stack/cloud-resources.ts";
import { controllerManifests, crdManifests } from "./snapshot-stack/manifests.ts";
import { classManifest, type DeclaredClass } from "./snapshot-stack/snapshot-class.ts";
import { classesFor, controllerNamespace, wishOf } from "./snapshot-stack/stack-request.ts";
import { transforming } from "./cloud-package.ts";

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
    const { transform, kubeconfig, ...wished } = args;
    // What `initialize` gets is written into the state.
    const kept = kubeconfig === undefined ? {} : { kubeconfig: secret(kubeconfig) };
    super("ramet:index:SnapshotStack", name, { ...wished, ...kept, name }, opts);
    this.#transform = transform;
    const made = this.getData();
    this.facts = output(made.then(({ facts }) => facts));
    this.classNames = output(classesFor(args).map((wish) => wish.name));
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
    const wish = wishOf(await ownersOf(this, args.name), args, classes);
    const seen = await this.#look(args);
    const plan = planStack(wish, seen ?? nothingSeen);
    if (seen !== undefined) this.#judge(args, plan.findings);
    const objects = await this.#declare(args, { wish, plan, classes });
    return { objects, facts: this.#facts(args, wish, { seen, objects }) };
  }

  #look({ cloud, kubeconfig, controller }: Args): Promise<StackSeen | undefined> {
    const namespace = cloud === "generic" ? (controller?.namespace ?? controllerNamespace) : undefined;
    const find = (around: Surroundings) => findStack(around, namespace);
    return lookAt(this, { find, kubeconfig, without: "it is taken to be empty" });
  }

  #judge({ cloud }: Args, findings: readonly Finding[]): void {
    const told = findings.filter(({ weight }) => weight === "tell");
    for (const { what, how } of told) void log.warn(`${what}. ${how}`, this);
    try {
      refuseFor(cloud, findings);
    } catch (error) {
      throw refusal(error);
    }
  }

  async #declare(
    args: Args,
    { wish, plan, classes }: { wish: StackRequest; plan: StackPlan; classes: readonly DeclaredClass[] },
  ): Promise<Made["objects"]> {
    const annotations = { [ownerAnnotation]: wish.owners[0] };
    // They stay when the stack goes: with them all snapshots would.
    const component = { name: args.name, transform: this.#transform, parent: this };
    const crds = declareAll(component, await crdManifests(plan, annotations), declareLasting);
    const installed = declareAll(component, installedManifests(plan.addons, annotations), declareLasting);
    const before = Object.values(installed);
    const wished = { args, addons: plan.addons, before };
    const ofCloud = await cloudResources(args.name, wished, { parent: this, ...transforming(this.#transform?.cloud) });
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
    wish: StackRequest,
    { seen, objects }: { seen: StackSeen | undefined; objects: Made["objects"] },
  ): Output<SnapshotStackFacts> {
    const facts = (found: StackSeen): SnapshotStackFacts => factsOf(found, planStack(wish, found).findings);
    if (runtime.isDryRun())
      return output(seen === undefined ? (unknownYet as unknown as SnapshotStackFacts) : facts(seen));
    const ids = all(Object.values(objects).map(({ id }) => id));
    return ids.apply(async () => facts((await this.#look(args)) ?? nothingSeen));
  }
}
