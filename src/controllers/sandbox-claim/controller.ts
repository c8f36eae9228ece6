import type { SandboxClaim } from "../../api/kinds/sandbox-claim.ts";
import type { ControllerWatch, ReconcileResult } from "../../kube/controller.ts";
import type { Informer } from "../../kube/informer.ts";
import { keyOf } from "../../kube/object.ts";
import { lookAgain } from "../common/requeue.ts";
import { applyAction } from "./apply.ts";
import type { ClaimDependencies } from "./dependencies.ts";
import { attemptId, gather } from "./gather.ts";
import { planClaim } from "./plan.ts";
import type { ClaimState } from "./state.ts";

/** Of which changes the SandboxClaim controller hears: of wishes, and of the sandboxes that it waits for and no others. */
export function claimWatches({ informers, awaited }: ClaimDependencies): ControllerWatch[] {
  const { sandboxes, claims } = informers;
  return [
    wishes(claims),
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

/** A change of the status alone is this controller's own. */
function wishes(claims: Informer<SandboxClaim>): ControllerWatch {
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

/** Brings one claim on its way. */
export async function reconcileClaim(key: string, dependencies: ClaimDependencies): Promise<ReconcileResult> {
  const { informers, statuses, events } = dependencies;
  const cached = informers.claims.store.get(key);
  if (cached === undefined) return;
  const claim = statuses.latest(cached);
  const state = await gather(claim, dependencies);
  const plan = planClaim(state);
  hearOf(key, state, dependencies);
  await Promise.all(plan.actions.map((action) => applyAction(claim, action, dependencies)));
  if (plan.status !== undefined) {
    await statuses.write(cached, plan.status);
    for (const transition of plan.transitions ?? []) events.record(claim, transition);
  }
  const isOver = (plan.status ?? claim.status)?.phase === "Completed";
  if (isOver) forgetClaim(claim, dependencies);
  // The pause before the next try grows with each of them.
  if (!isOver && state.error !== undefined) throw state.error;
  return lookAgain(state, plan);
}

/** Before anything is waited for: from now on a change of these brings the claim again. */
function hearOf(key: string, { members }: ClaimState, { awaited }: ClaimDependencies): void {
  for (const { sandbox, standing } of members) {
    if (standing.is === "waiting") awaited.set(sandbox.metadata.uid, key);
    else awaited.delete(sandbox.metadata.uid);
  }
}

/** What this process kept of a claim that is over or gone. What waits for stock for it ends. */
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
