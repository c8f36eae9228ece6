import { RametError } from "../../api/errors.ts";
import { group } from "../../api/kind.ts";
import { wantsRollback } from "../../api/rollback-request.ts";
import type { Pod } from "../../api/pod.ts";
import type { Sandbox, SandboxStatus } from "../../api/sandbox.ts";
import { controllerKeys, watching, type ControllerWatch, type ReconcileResult } from "../../kube/controller.ts";
import { controllerOf, keyOf, nameOfKey } from "../../kube/object.ts";
import { sandboxKeysOfCheckpoint, sandboxKeysOfSnapshot, sandboxKeysOfTemplate } from "../cache.ts";
import { lookAgain } from "../look-again.ts";
import { adoptionId, wantsAdoption } from "./adoption-id.ts";
import { applyAction } from "./apply.ts";
import type { SandboxDependencies } from "./dependencies.ts";
import { gather } from "./gather.ts";
import { planSandbox } from "./plan.ts";
import { swapId } from "./rollback.ts";
import type { SandboxPlan, SandboxState } from "./state.ts";
import { notReady } from "./status.ts";

/** Of which changes the Sandbox controller hears. */
export function sandboxWatches({ informers, cache }: SandboxDependencies): ControllerWatch[] {
  return [
    watching(informers.sandboxes),
    watching(informers.pods, controllerKeys("Sandbox", group)),
    watching(informers.checkpoints, (checkpoint) => sandboxKeysOfCheckpoint(cache, checkpoint)),
    watching(informers.templates, (template) => sandboxKeysOfTemplate(cache, template)),
    watching(informers.snapshots, (snapshot) => sandboxKeysOfSnapshot(cache, snapshot)),
  ];
}

/** Makes one sandbox what its spec says. */
export async function reconcileSandbox(key: string, dependencies: SandboxDependencies): Promise<ReconcileResult> {
  const { cache, sandboxWrites } = dependencies;
  const cached = cache.sandbox(key);
  await deleteOrphan(key, cached, dependencies);
  if (cached === undefined) return;
  const state = await gather(sandboxWrites.latest(cached), dependencies);
  const plan = planSandbox(state);
  forgetWhatIsOver(state, dependencies);
  await carryOut(state, plan, dependencies);
  return lookAgain(state, plan);
}

async function carryOut(state: SandboxState, plan: SandboxPlan, dependencies: SandboxDependencies): Promise<void> {
  const outcomes = await Promise.allSettled(
    plan.actions.map((action) => applyAction(state.sandbox, action, dependencies)),
  );
  const podAt = plan.actions.findIndex((action) => action.do === "createPod");
  const podOutcome = outcomes[podAt];
  if (podOutcome?.status === "rejected") await reportPodError(state, podOutcome.reason, dependencies);
  const failure = outcomes.find((outcome, at) => outcome.status === "rejected" && at !== podAt);
  if (failure?.status === "rejected") throw failure.reason;
  if (plan.status === undefined) return;
  await writeStatus(state.sandbox, plan.status, dependencies);
  for (const transition of plan.transitions ?? []) dependencies.events.record(state.sandbox, transition);
}

async function writeStatus(
  sandbox: Sandbox,
  status: SandboxStatus,
  { statuses, sandboxWrites }: SandboxDependencies,
): Promise<void> {
  await sandboxWrites.write(sandbox, () => statuses.write(sandbox, status));
}

/** What is wrong with the template changes only when somebody changes that; everything else is tried again. */
async function reportPodError(state: SandboxState, reason: unknown, dependencies: SandboxDependencies): Promise<void> {
  const error = RametError.from(reason);
  const note = `The Pod cannot be made: ${error.describe()}`;
  await writeStatus(state.sandbox, notReady(state, "PodCreateFailed", note), dependencies);
  dependencies.events.record(state.sandbox, { type: "Warning", reason: "PodCreateFailed", action: "CreatePod", note });
  if (error.code !== "InvalidArgument") throw error;
}

/** A Pod whose Sandbox is gone: a crash between two writes leaves it, and not every cluster has a garbage collector. */
async function deleteOrphan(
  key: string,
  sandbox: Sandbox | undefined,
  { cache, informers }: SandboxDependencies,
): Promise<void> {
  const pod = cache.pod(key);
  const owner = pod && controllerOf(pod);
  if (owner?.kind !== "Sandbox" || owner.uid === sandbox?.metadata.uid) return;
  if (pod === undefined || pod.metadata.deletionTimestamp !== undefined) return;
  const living = await informers.sandboxes.resource.find(nameOfKey(key));
  if (living?.metadata.uid === owner.uid) return;
  await informers.pods.resource.delete(pod.metadata, { uid: pod.metadata.uid });
}

function forgetWhatIsOver({ sandbox, pod }: SandboxState, dependencies: SandboxDependencies): void {
  const { starts, slowStart, cache } = dependencies;
  if (pod !== undefined) forgetAnswered(sandbox, pod, dependencies);
  const phase = cache.sandbox(keyOf(sandbox.metadata))?.status?.phase;
  const starting = phase === undefined || phase === "Pending" || phase === "Resuming";
  if (starting && sandbox.metadata.deletionTimestamp === undefined) return;
  slowStart.forget(sandbox.metadata.uid);
  if (pod !== undefined) starts.forget(pod.metadata.uid);
}

/** Calls to a cell for what is not asked for any more, or was answered. */
function forgetAnswered(sandbox: Sandbox, pod: Pod, { adoptions, swaps }: SandboxDependencies): void {
  if (!wantsRollback(sandbox)) swaps.forget(swapId(sandbox, pod));
  if (!wantsAdoption(sandbox) || sandbox.status?.phase !== "Running") adoptions.forget(adoptionId(sandbox, pod));
}
