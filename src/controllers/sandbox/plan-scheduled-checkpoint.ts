import { hash } from "node:crypto";
import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import { hasVolumes, type RametSandboxStatus, type SandboxStatus } from "../../api/kinds/sandbox.ts";
import { annotations } from "../../api/names/labels.ts";
import { automaticCheckpointsOf } from "../../api/pod/disruption.ts";
import type { Pod } from "../../api/schema/pod.ts";
import type { SandboxActivity } from "../../api/schema/metadata.ts";
import type { Problem } from "../../api/schema/problem.ts";
import { checkpointState } from "../../api/state/checkpoint.ts";
import { problemIn, problemOf, within } from "../../api/state/problem.ts";
import { defined } from "../../base/defined.ts";
import type { RametError } from "../../base/errors.ts";
import { findCondition } from "../../kube/conditions.ts";
import { soonest } from "../../kube/controller.ts";
import type { Transition } from "../../kube/events.ts";
import {
  automaticCheckpointName,
  capturedAt,
  capturedPodUid,
  isUsed,
  lastAutomatic,
  surplusOf,
} from "../cluster/pause-checkpoint.ts";
import { contentsOfPause, type SandboxPlan, type SandboxState } from "./state.ts";
import { amended, type ConditionChange } from "./status.ts";

type Automatic = NonNullable<RametSandboxStatus["automatic"]>;

/** Takes automatic checkpoints of a running sandbox, and keeps the last ones. A failed one changes nothing else. */
export function withAutomaticCheckpoint(state: SandboxState, plan: SandboxPlan): SandboxPlan {
  const { pod } = state;
  const schedule = pod && automaticCheckpointsOf(pod);
  if (pod === undefined || schedule === undefined || !isCapturable(state, plan, pod)) return withEnded({ state, plan });
  return withPruned(state, planScheduled({ state, plan, ...schedule }, pod), schedule.kept);
}

function isCapturable(state: SandboxState, plan: SandboxPlan, { metadata }: Pod): boolean {
  const { sandbox, rollback } = state;
  const { phase, conditions, podInfo } = plan.status ?? sandbox.status ?? {};
  const isReady = phase === "Running" && findCondition(conditions, "Ready")?.status === "True";
  const isOwn = metadata.uid === podInfo?.podUID;
  return isReady && isOwn && rollback === undefined && isUsed(sandbox);
}

interface Planned {
  state: SandboxState;
  plan: SandboxPlan;
}

interface Scheduled extends Planned {
  everyMilliseconds: number;
}

/** Reports what became of the last one. Nothing is captured now, and one whose Checkpoint does not exist yet is not created. */
function withEnded(planned: Planned): SandboxPlan {
  const name = nameTaken(planned.state);
  if (name === undefined) return planned.plan;
  const isThere = planned.state.automatic?.some((own) => isNamed(own, name)) === true;
  const why = "It cannot be captured now";
  const ended = isThere ? takenBefore(planned) : recorded(planned, { outcome: "Skipped", message: why });
  return ended ?? planned.plan;
}

function planScheduled(scheduled: Scheduled, pod: Pod): SandboxPlan {
  const { state, plan } = scheduled;
  const { otherCheckpoint, sandbox, now } = state;
  const taken = takenBefore(scheduled);
  if (taken !== undefined) return taken;
  const base = baseOf(state, pod);
  const leftMilliseconds = base + delayMilliseconds(scheduled, base) - now.getTime();
  if (leftMilliseconds > 0) return later(plan, leftMilliseconds);
  if (hasVolumes(sandbox)) return recorded(scheduled, { outcome: "Skipped", problem: volumesProblem });
  if (otherCheckpoint !== undefined) return later(plan, busyMilliseconds);
  const idle = idleness(scheduled, pod);
  if (idle === "unknown") return { ...plan, actions: [...plan.actions, { do: "readActivity", pod }] };
  if (idle === "asked") return plan;
  if (idle !== "busy") return recorded(scheduled, { outcome: "Skipped", message: idle });
  if (state.hasTurn === false) return later(plan, busyMilliseconds);
  return taking(scheduled, automaticCheckpointName(sandbox, base));
}

/** Other captures come first, or those of other sandboxes on the node. */
const busyMilliseconds = 5_000;

/** What became of the one that was being taken. Undefined: none was. */
function takenBefore(scheduled: Planned): SandboxPlan | undefined {
  const { automatic: owned = [] } = scheduled.state;
  const name = nameTaken(scheduled.state);
  // Without the status, a controller has ended after it had created one.
  if (name === undefined) {
    const unseen = owned.find((own) => checkpointState(own) === "unfinished");
    return unseen && taking(scheduled, unseen.metadata.name);
  }
  const one = owned.find((own) => isNamed(own, name));
  if (one === undefined) return withCreation(scheduled, scheduled.plan, name);
  const is = checkpointState(one);
  if (is === "unfinished") return scheduled.plan;
  return is === "succeeded" ? recorded(scheduled, { outcome: "Taken" }) : failed(scheduled, one);
}

function nameTaken({ sandbox }: SandboxState): string | undefined {
  const { outcome, taking: name } = sandbox.status?.ramet?.automatic ?? {};
  return outcome === "Taking" ? name : undefined;
}

function failed(planned: Planned, one: Checkpoint): SandboxPlan {
  const why = problemIn(one.status) ?? { code: "CheckpointFailed", cause: one.status?.message ?? "no reason given" };
  const plan = withFailure(planned, within(why, `The automatic checkpoint ${one.metadata.name} failed`));
  return { ...plan, actions: [...plan.actions, { do: "deleteCheckpoint", checkpoint: one }] };
}

function withFailure(planned: Planned, problem: Problem): SandboxPlan {
  const { state, plan } = planned;
  const failures = (state.sandbox.status?.ramet?.automatic?.failures ?? 0) + 1;
  const note = `${problem.cause}. The sandbox runs on, and the checkpoint is repeated`;
  const transition: Transition = { type: "Warning", reason: "CheckpointFailed", action: "Capture", note };
  return {
    ...recorded(planned, { outcome: "Failed", failures, problem }),
    ...(failures === 1 && { transitions: [...(plan.transitions ?? []), transition] }),
  };
}

/** For a Checkpoint that the API server refuses to create, as for a quota or a policy. */
export function withRefusedCheckpoint(state: SandboxState, plan: SandboxPlan, error: RametError): SandboxPlan {
  return withFailure({ state, plan }, problemOf(error, "The automatic checkpoint cannot be created"));
}

function isNamed({ metadata }: Checkpoint, name: string): boolean {
  return metadata.name === name;
}

function taking(scheduled: Planned, name: string): SandboxPlan {
  return withCreation(scheduled, recorded(scheduled, { outcome: "Taking", taking: name }), name);
}

/** Repeated until the Checkpoint is seen. */
function withCreation({ state }: Planned, plan: SandboxPlan, name: string): SandboxPlan {
  if (state.automatic?.some((own) => isNamed(own, name)) === true) return plan;
  const create = { do: "createAutomaticCheckpoint", name, persistentContents: contentsOfPause(state) } as const;
  return { ...plan, actions: [...plan.actions, create] };
}

/** The time from which the next one follows: the last one, or the start of the sandbox. */
function baseOf({ sandbox, automatic = [], now }: SandboxState, { metadata }: Pod): number {
  const times = [
    metadata.creationTimestamp,
    sandbox.metadata.annotations?.[annotations.claimTimestamp],
    sandbox.status?.ramet?.automatic?.at,
  ].map((time) => Date.parse(time ?? ""));
  const saved = lastAutomatic(sandbox, automatic);
  // The clock of a node can be ahead.
  const savedAt = saved === undefined ? 0 : Math.min(capturedAt(saved), now.getTime());
  return Math.max(...times.filter((time) => !Number.isNaN(time)), savedAt);
}

/** Sandboxes that started together are captured at different times, and drift apart. After failures the pauses grow. */
function delayMilliseconds({ state, everyMilliseconds }: Scheduled, base: number): number {
  const { sandbox } = state;
  const failures = sandbox.status?.ramet?.automatic?.failures ?? 0;
  const longest = Math.max(everyMilliseconds, 3_600_000);
  const full = failures === 0 ? everyMilliseconds : Math.min(longest, 60_000 * 2 ** Math.min(failures - 1, 10));
  const fraction = parseInt(hash("sha256", `${sandbox.metadata.uid}/${base}`).slice(0, 8), 16) / 2 ** 32;
  return full * (0.75 + 0.25 * fraction);
}

/**
 * CPU time that a sandbox without work uses: gVisor keeps its clocks, and nodes probe it. What is allowed stops growing after one
 * interval, and what is used does not, so that little work is also saved.
 */
const idleCpuMilliseconds = 100;
const idleCpuPerSecond = 1;

/** Why nothing is to be captured. `asked`: the cell is being asked. */
function idleness({ state, everyMilliseconds }: Scheduled, pod: Pod): string {
  const { sandbox, automatic = [], activity } = state;
  const saved = lastAutomatic(sandbox, automatic);
  // Before the first capture of this Pod, its cell has nothing to compare with.
  if (saved === undefined || capturedPodUid(saved) !== pod.metadata.uid) return "busy";
  if (activity === undefined) return "unknown";
  if (activity.state === "running") return "asked";
  const since = activity.state === "done" ? activity.value : undefined;
  if (since === undefined || since.checkpointId !== saved.status?.checkpointId || isBusy(since, everyMilliseconds))
    return "busy";
  return `The sandbox has done nothing since ${saved.metadata.name}: ${since.cpuMilliseconds} ms of CPU time`;
}

function isBusy({ bytes, cpuMilliseconds, milliseconds }: SandboxActivity, everyMilliseconds: number): boolean {
  const seconds = Math.min(milliseconds, everyMilliseconds) / 1000;
  return bytes > 0 || cpuMilliseconds > idleCpuMilliseconds + idleCpuPerSecond * seconds;
}

const volumesProblem: Problem = {
  code: "VolumesNotCaptured",
  cause: "No automatic checkpoints are taken: its PersistentVolumeClaims would be newer than its memory",
  hint: "Use a sandbox without PersistentVolumeClaims, or capture volumes with ramet checkpoint create",
};

function recorded(
  { state, plan }: Planned,
  { problem, ...change }: Pick<Automatic, "outcome"> & Partial<Automatic> & { problem?: Problem },
): SandboxPlan & { status: SandboxStatus } {
  const { sandbox, now, automatic: owned = [] } = state;
  const before = sandbox.status?.ramet?.automatic;
  const isTaking = change.outcome === "Taking";
  const conditions: ConditionChange[] =
    problem === undefined ? [] : [{ type: "CheckpointsTaken", status: "False", reason: problem.code, problem }];
  const { status, ...rest } = amended(state, plan, { conditions, drop: isTaking ? [] : ["CheckpointsTaken"] });
  const automatic: Automatic = {
    ...defined({ failures: isTaking ? before?.failures : undefined, message: problem?.cause }),
    ...change,
    at: now.toISOString(),
    ...savedIn(lastAutomatic(sandbox, owned)),
  };
  return { ...rest, status: { ...status, ramet: { ...status.ramet, automatic } } };
}

function savedIn(saved: Checkpoint | undefined): Pick<Automatic, "checkpoint" | "savedAt"> {
  if (saved === undefined) return {};
  return { checkpoint: saved.metadata.name, savedAt: new Date(capturedAt(saved)).toISOString() };
}

function later(plan: SandboxPlan, milliseconds: number): SandboxPlan {
  return { ...plan, ...soonest(plan.requeueAfterMilliseconds, Math.max(1, Math.ceil(milliseconds))) };
}

/** Those before the last ones are deleted when the later ones have succeeded, and failed ones of an earlier Pod. */
function withPruned({ automatic = [], sandbox }: SandboxState, plan: SandboxPlan, kept: number): SandboxPlan {
  const current = sandbox.status?.ramet?.automatic?.taking;
  const surplus = surplusOf(automatic, kept).filter((one) => !isNamed(one, current ?? ""));
  const removed = surplus.map((checkpoint) => ({ do: "deleteCheckpoint", checkpoint }) as const);
  return removed.length === 0 ? plan : { ...plan, actions: [...plan.actions, ...removed] };
}
