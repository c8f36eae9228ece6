import type { SandboxClaim } from "../../api/kinds/sandbox-claim.ts";
import { labels } from "../../api/names/labels.ts";
import { defined } from "../../base/defined.ts";
import { type Claimed, type ClaimParts, claimMetrics } from "../../operations/claim/claim-sandbox.ts";
import { FairTurns } from "../../base/fair-turns.ts";
import { setModel } from "../../operations/claim/cold-sandbox.ts";
import { Stock } from "../../operations/claim/stock.ts";
import type { ControllerWatch, ReconcileResult } from "../../kube/controller.ts";
import type { Informer } from "../../kube/informer.ts";
import { keyOf } from "../../kube/object.ts";
import { StatusWriter } from "../../kube/status-writer.ts";
import { Attempts, SlowStart } from "../cluster/attempts.ts";
import { type Controller, RequeueSource } from "../cluster/controller-parts.ts";
import { applyAction } from "./apply.ts";
import { attemptId, gather } from "./gather.ts";
import { planClaim } from "./plan.ts";
import type { ClaimControllerParts, ClaimDependencies, ClaimState } from "./state.ts";

/** Changes of claims, and of the sandboxes that claims wait for. */
export function claimWatches({ informers, awaited }: ClaimDependencies): ControllerWatch[] {
  const { sandboxes, claims } = informers;
  return [
    specChanges(claims),
    {
      synced: (signal) => sandboxes.synced(signal),
      start: (enqueue) =>
        sandboxes.onChange(({ object }) => {
          const key = awaited.get(object.metadata.uid);
          if (key !== undefined) enqueue(key);
        }),
    },
  ];
}

/** Ignores changes of the status alone, which this controller writes itself. */
function specChanges(claims: Informer<SandboxClaim>): ControllerWatch {
  return {
    synced: (signal) => claims.synced(signal),
    start: (enqueue) =>
      claims.onChange((change) => {
        const { uid, generation, deletionTimestamp } = change.object.metadata;
        const before = change.type === "updated" ? change.previous.metadata : undefined;
        if (before?.uid === uid && before.generation === generation && before.deletionTimestamp === deletionTimestamp)
          return;
        enqueue(keyOf(change.object.metadata));
      }),
  };
}

export async function reconcileClaim(key: string, dependencies: ClaimDependencies): Promise<ReconcileResult> {
  const { informers, statuses, events } = dependencies;
  const cached = informers.claims.store.get(key);
  if (cached === undefined) return;
  const claim = statuses.latest(cached);
  const state = await gather(claim, dependencies);
  const plan = planClaim(state);
  awaitMembers(key, state, dependencies);
  await Promise.all(plan.actions.map((action) => applyAction(claim, action, dependencies)));
  if (plan.status !== undefined) {
    await statuses.write(cached, plan.status);
    for (const transition of plan.transitions ?? []) events.record(claim, transition);
  }
  const isOver = (plan.status ?? claim.status)?.phase === "Completed";
  if (isOver) forgetClaim(claim, dependencies);
  return { ...plan, ...(!isOver && defined({ failure: state.error })) };
}

/** Called before any await: from now on, a change of these sandboxes reconciles the claim. */
function awaitMembers(key: string, { members }: ClaimState, { awaited }: ClaimDependencies): void {
  for (const { sandbox, progress } of members) {
    if (progress.is === "waiting") awaited.set(sandbox.metadata.uid, key);
    else awaited.delete(sandbox.metadata.uid);
  }
}

/** Drops the records of a completed or deleted claim, and stops its waiting attempts. */
export function forgetClaim({ metadata }: SandboxClaim, dependencies: ClaimDependencies): void {
  const { pursuits, attempts, awaited, slowStart } = dependencies;
  const pursuit = pursuits.get(metadata.uid);
  pursuit?.abort.abort();
  for (const ordinal of pursuit?.ordinals ?? []) attempts.forget(attemptId(metadata.uid, ordinal));
  pursuits.delete(metadata.uid);
  slowStart.forget(metadata.uid);
  const key = keyOf(metadata);
  for (const [uid, claimKey] of awaited) if (claimKey === key) awaited.delete(uid);
}

/** Half of the client's connections; the controllers that refill the sets need the others. */
const writesAtOnce = 16;

export function sandboxClaimController(parts: ClaimControllerParts): Controller {
  const { informers, clock, random, metrics } = parts;
  const requeues = new RequeueSource();
  const counted = metrics && claimMetrics(metrics.registry);
  const claimParts: ClaimParts = {
    ...claimPartsOf(parts),
    ...defined({ metrics: counted }),
  };
  const dependencies: ClaimDependencies = {
    ...parts,
    claimParts,
    statuses: new StatusWriter<SandboxClaim>(informers.claims.resource),
    attempts: new Attempts<Claimed>({ clock, random }),
    pursuits: new Map(),
    awaited: new Map(),
    slowStart: new SlowStart(clock),
    serverClock: clockOfServer(parts),
    sandboxesOfClaim: informers.sandboxes.store.index(({ metadata }) => {
      const name = metadata.labels?.[labels.claimName];
      return name === undefined ? [] : [keyOf({ namespace: metadata.namespace, name })];
    }),
    enqueue: requeues.enqueue,
  };
  const stop = informers.claims.store.subscribe(({ type, object }) => {
    if (type === "deleted") forgetClaim(object, dependencies);
  });
  return {
    name: "sandboxclaim",
    watches: claimWatches(dependencies),
    reconcile: (key) => reconcileClaim(key, dependencies),
    requeues,
    close: () => {
      stop();
      for (const { abort } of dependencies.pursuits.values()) abort.abort();
      dependencies.attempts.close();
      claimParts.stock.close();
      counted?.close();
    },
  };
}

/** Asked once per process, when the first claim needs it. */
function clockOfServer({
  client,
  clock,
}: Pick<ClaimControllerParts, "client" | "clock">): () => Promise<number | undefined> {
  let known: number | undefined;
  return async () => {
    const time = known === undefined ? await client.serverTime().catch(() => undefined) : undefined;
    known ??= time && time.at.getTime() - clock.now().getTime();
    return known;
  };
}

function claimPartsOf({ informers, cache, sandboxWrites, clock, random }: ClaimControllerParts): ClaimParts {
  return {
    sandboxes: informers.sandboxes.resource,
    stock: new Stock({
      store: informers.sandboxes.store,
      latest: (cached) => sandboxWrites.latest(cached),
      revisionOf: (setKey) => cache.set(setKey)?.status?.updateRevision,
    }),
    turns: new FairTurns(writesAtOnce),
    model: async (at) => {
      const set = cache.set(keyOf(at)) ?? (await informers.sets.resource.find(at));
      return set && setModel(set, cache, random);
    },
    remember: (base, write) => sandboxWrites.write(base, write),
    clock,
  };
}
