import type { SandboxSet } from "../api/kinds/sandbox-set.ts";
import { restoreFromAnnotations } from "../api/names/labels.ts";
import { rametGroup } from "../api/schema/kind.ts";
import { resolveOrigin } from "../api/snapshot/snapshot-reference.ts";
import { acsCloneAnnotations, podGuests } from "../backends/acs/acs-clone.ts";
import { defined } from "../base/defined.ts";
import { RametError } from "../base/errors.ts";
import { type Log, silentLog } from "../base/log.ts";
import { ownKey, watching } from "../kube/controller.ts";
import type { Informer } from "../kube/informer.ts";
import type { KubeClient } from "../kube/kube-client.ts";
import { type KubeObject, keyOf } from "../kube/object.ts";
import { findOtherControllers } from "../kube/other-controllers.ts";
import { coreResources } from "../kube/resource-ref.ts";
import { createCache } from "./cluster/cache.ts";
import type { Controller, ControllerParts } from "./cluster/controller-parts.ts";
import { Exclusion, NamespaceQuotas, createInformers, sandboxResources } from "./cluster/resources.ts";
import type { Garbage } from "./collect/garbage.ts";
import { runCollector } from "./collect/run-collector.ts";
import { Engines } from "./images/engines.ts";
import { installCrds } from "./install-crds.ts";
import { besideCloning } from "./named-snapshot/cloning.ts";
import { namedSnapshotController } from "./named-snapshot/controller.ts";
import { eventRecorder, runTogether, whileFollowing, whileLeading } from "./run-together.ts";
import type { RunControllersOptions } from "./run.ts";

export type RunBesideOptions = Omit<
  RunControllersOptions,
  "store" | "cells" | "registries" | "upkeep" | "importVolumes" | "otherControllers" | "onYield"
>;

/**
 * Runs what OpenKruise's and ACS' controllers lack until `signal` is aborted: named snapshots, sets that follow them, and garbage
 * collection. Their controllers run, capture and clone the sandboxes. Writes to their objects only on a user's request.
 * @throws RametError `NotFound` if their kinds are not installed; `Unavailable` if the lease was lost
 */
export async function runBeside(options: RunBesideOptions): Promise<void> {
  const { client, signal, log = silentLog } = options;
  await expectTheirKinds(client, log, signal);
  if (options.installCrds ?? false) await installCrds(client, signal, [rametGroup]);
  await whileLeading(options, (leading) => work(options, leading), signal);
}

async function expectTheirKinds(client: KubeClient, log: Log, signal: AbortSignal): Promise<void> {
  const { sandboxes, checkpoints, templates, sets } = sandboxResources;
  const crds = client.resource(coreResources.crds);
  for (const { plural, group, kind } of [sandboxes, checkpoints, templates, sets]) {
    if ((await crds.find({ name: `${plural}.${group}` }, { signal })) !== undefined) continue;
    throw new RametError("NotFound", `Cannot work beside OpenKruise Agents: the kind ${kind} is not installed`, {
      hint: "Install OpenKruise Agents or the ACS components first, or start without --beside",
    });
  }
  const { others } = await findOtherControllers(client, signal);
  if (others.length > 0) return;
  log.warn({}, "no controller of OpenKruise Agents or ACS was found: named snapshots wait until one runs sandboxes");
}

async function work(options: RunBesideOptions, signal: AbortSignal): Promise<void> {
  const { client, log = silentLog } = options;
  const exclusion = new Exclusion(client, { namespaceSelector: options.namespaces?.selector }, log);
  // No cells run here, so there are no Pods to follow.
  const { pods, ...followed } = createInformers(client, log, { excludes: exclusion.excludes });
  const all = Object.values(followed) as Informer<KubeObject>[];
  exclusion.follow(all.map(({ store }) => store));
  const running = [...all, exclusion.namespaces].filter((one) => one !== undefined);
  await whileFollowing(running, options, () => reconcile(options, { ...followed, pods }, signal), signal);
}

async function reconcile(
  options: RunBesideOptions,
  informers: ReturnType<typeof createInformers>,
  signal: AbortSignal,
): Promise<void> {
  const { client, metrics, network, namespaces, log = silentLog } = options;
  const { clock, random } = client;
  const events = eventRecorder(options);
  const cache = createCache(informers);
  const parts = {
    client,
    informers,
    cache,
    clock,
    random,
    log,
    events,
    runtime: podGuests(clock),
    cloning: besideCloning({ cache, informers }),
    // No cells run here, and no checkpoint records an engine.
    engines: new Engines({ cellImage: "" }),
    quotas: new NamespaceQuotas(informers.namespaces, namespaces?.quota),
    podOptions: { cellImage: "", ...(network?.clusterRanges && { clusterRanges: [...network.clusterRanges] }) },
    ...defined({ metrics }),
  };
  const controllers = [namedSnapshotController(parts), besideSetController(parts)];
  const collecting = defined({ informers, clock, log, collects: isLeftBehind, metrics: metrics?.collections });
  await runTogether(options, { controllers, others: [() => runCollector(collecting, signal)], events }, signal);
}

/**
 * OpenKruise's controllers mark unused revisions of sets and set times to live, but only ACS deletes for them. Kubernetes deletes
 * what has lost its owner. A claim is deleted by its own controller.
 */
export function isLeftBehind({ garbage, kind, dueAt }: Garbage, now: Date): boolean {
  if (garbage === "UnusedTemplate" || garbage === "UnusedTree") return true;
  return garbage === "TimeToLive" && kind === "Checkpoint" && Date.parse(dueAt ?? "") <= now.getTime();
}

type BesideSetParts = Pick<ControllerParts, "informers" | "cache" | "events">;

/**
 * Lets sets of other controllers follow named snapshots: writes the id of the current version into the set's template. While there
 * is no version, the set stays as it is, and an event says what it waits for.
 */
export function besideSetController({ informers, cache, events }: BesideSetParts): Controller {
  const following = informers.sets.store.index((set) => {
    const followed = followedBy(set);
    return followed === undefined ? [] : [`${set.metadata.namespace}/${followed.split("@")[0] ?? ""}`];
  });
  return {
    name: "beside-set",
    watches: [
      watching(informers.sets),
      watching(informers.snapshots, ({ metadata }) => following(keyOf(metadata)).flatMap(ownKey)),
    ],
    reconcile: async (key) => {
      const set = cache.set(key);
      if (set === undefined || set.metadata.deletionTimestamp !== undefined) return;
      const followed = followedBy(set);
      const checkpointId = followed === undefined ? undefined : currentId(set, followed);
      const patch =
        followed === undefined || checkpointId === undefined ? undefined : followPatch(set, followed, checkpointId);
      if (patch !== undefined) await informers.sets.resource.mergePatch(set.metadata, patch);
    },
  };

  function currentId(set: SandboxSet, followed: string): string | undefined {
    try {
      return resolveOrigin(set.metadata.namespace, followed, cache);
    } catch (thrown) {
      const error = RametError.from(thrown);
      const note = `The set does not follow ${followed}: ${error.describe()}`;
      events.record(set, { type: "Warning", reason: error.code, action: "Follow", note });
      return undefined;
    }
  }
}

/** On a set, or on its template until the controllers have moved it to the set: a named snapshot or a checkpoint id. */
const [rametRestoreFrom] = restoreFromAnnotations;

/** The named snapshot or checkpoint id that a set follows; undefined: none. */
function followedBy({ metadata, spec }: SandboxSet): string | undefined {
  const inTemplate = templateAnnotations(spec.template)[rametRestoreFrom];
  const text = inTemplate ?? metadata.annotations?.[rametRestoreFrom];
  return typeof text === "string" && text !== "" ? text : undefined;
}

/**
 * The merge patch that makes the sandboxes of a set clones of a checkpoint; undefined if they are. Their controllers read the id on
 * the template and roll the set when it changes. They would copy the name to each sandbox, so it moves to the set itself.
 */
function followPatch(set: SandboxSet, followed: string, checkpointId: string): object | undefined {
  const own = templateAnnotations(set.spec.template);
  const wanted = acsCloneAnnotations(checkpointId);
  const isSet = Object.entries(wanted).every(([key, value]) => own[key] === value);
  if (isSet && own[rametRestoreFrom] === undefined) return undefined;
  const { uid, resourceVersion } = set.metadata;
  return {
    // Fails with a conflict if the set has changed since.
    metadata: { uid, resourceVersion, annotations: { [rametRestoreFrom]: followed } },
    spec: { template: { metadata: { annotations: { ...wanted, [rametRestoreFrom]: null } } } },
  };
}

/** A template has no schema in the API, so it can hold any value. */
function templateAnnotations(template: Record<string, unknown> | undefined): Record<string, unknown> {
  const metadata = template?.["metadata"] as { annotations?: Record<string, unknown> | null } | null | undefined;
  return metadata?.annotations ?? {};
}
