import type { Condition } from "../../api/schema/metadata.ts";
import { problemIn, sentenceOf } from "../../api/state/problem.ts";
import { pausedBy, sandboxState } from "../../api/state/sandbox.ts";
import { isErrorCode } from "../../base/error-codes.ts";
import { findCondition } from "../../kube/conditions.ts";
import { unprocessed } from "./controller-rules.ts";
import { ended, type Report, terminating, unreadiness } from "./end-rules.ts";
import {
  completed,
  type Explanation,
  firstOf,
  type Found,
  generalRemedy,
  nothingToDo,
  remedyIn,
  reportOf,
  type Rule,
  withoutStop,
} from "./explanation.ts";
import { type SandboxFacts, secondsSince } from "./facts.ts";
import { silentNode } from "./node-rules.ts";
import { explainPod } from "./pod-rules.ts";
import { refusedPod } from "./kubernetes-texts.ts";

export function explainSandbox(facts: SandboxFacts): Explanation {
  return completed(rules(facts) ?? healthy(facts));
}

const rules: Rule<SandboxFacts> = firstOf(
  ended,
  (facts) => unprocessed(facts.sandbox, facts),
  terminating,
  paused,
  starting,
  disrupted,
  unready,
  degraded,
  leaving,
);

function paused({ sandbox }: SandboxFacts): Found | undefined {
  const { metadata, spec, status } = sandbox;
  if (status?.phase !== "Paused") return undefined;
  const since = findCondition(status.conditions, "SandboxPaused")?.lastTransitionTime;
  const { noTarget, disruption } = status.ramet ?? {};
  if (spec.paused !== true && noTarget !== undefined)
    return {
      state: "stuck",
      cause: `Its Pod was ended (${disruption?.cause}), and no other node takes it: ${noTarget.message}`,
      reason: "NoTarget",
      since: noTarget.at,
      retry: `Another Pod is created at ${noTarget.retryAt}, or as soon as another node may take it`,
      action: "Add a node that takes it. Its state is kept",
    };
  if (spec.paused !== true) {
    const retry = "The controllers start a Pod for it";
    return { state: "waiting", cause: "It is being resumed", since, retry };
  }
  const by = pausedBy(sandbox);
  return {
    state: "healthy",
    cause:
      by === undefined
        ? "It is paused, as spec.paused requests"
        : `It is paused with its state${savedState(sandbox)}, because its Pod was ended (${by})`,
    since,
    action: `Resume it when you need it: ramet sandbox resume ${metadata.name} -n ${metadata.namespace}`,
  };
}

function starting(facts: SandboxFacts): Found | undefined {
  const { metadata } = facts.sandbox;
  if (sandboxState(facts.sandbox).is !== "starting") return undefined;
  const report = unreadiness(facts.sandbox);
  const { code, cause: message } = report.problem;
  // The scheduler's own words do not say which features are missing.
  if (code === "CpuFeaturesMissing") return withoutCause(facts, report);
  const found = refusedPod({ message, since: report.since, namespace: metadata.namespace }) ?? explainPod(facts);
  return found === undefined ? withoutCause(facts, report) : { ...found, since: found.since ?? report.since };
}

/** Only the controllers' own report says what is missing. */
function withoutCause({ sandbox, now }: SandboxFacts, { problem, since }: Report): Found {
  const { cause, hint, code } = problem;
  if (isErrorCode(code) && problemIn(sandbox.status) !== undefined) {
    const retry = "The controllers start it when what is missing exists, or the template changes";
    return { cause, reason: code, since, retry, action: hint ?? generalRemedy(code) };
  }
  const isLate = secondsSince(since, now) > 60;
  const { name, namespace } = sandbox.metadata;
  return {
    state: isLate ? "stuck" : "waiting",
    cause: cause === "" ? "It is starting" : cause,
    reason: code,
    since,
    retry: "The controllers continue as soon as this changes",
    action: isLate ? `Read the log of its Pod: kubectl logs ${name} -n ${namespace}` : nothingToDo,
  };
}

/** Others end its Pod, and it still runs. */
function disrupted(facts: SandboxFacts): Found | undefined {
  const { status } = facts.sandbox;
  const { disruption, automatic } = status?.ramet ?? {};
  const isMoved = disruption?.outcome === "Migrating";
  if (disruption === undefined || status?.phase !== "Running" || (!isMoved && disruption.outcome !== "Pausing"))
    return undefined;
  const silent = silentNode(facts);
  if (silent !== undefined)
    return {
      ...silent,
      cause: `Its Pod is being ended (${disruption.cause}), but cannot be captured. ${silent.cause}`,
      ...(automatic && continuedLater(automatic)),
    };
  const retry = `The controllers ${isMoved ? "start another Pod" : "pause it"} when its state is captured`;
  const cause = `Its Pod is being ended (${disruption.cause}), and its state is being captured`;
  return { state: "waiting", cause, reason: disruption.cause, since: disruption.at, retry };
}

function continuedLater({ checkpoint, savedAt }: { checkpoint?: string | undefined; savedAt?: string | undefined }) {
  if (checkpoint === undefined) return {};
  return {
    retry: `It continues from the checkpoint ${checkpoint} of ${savedAt} when Kubernetes has removed the Pod`,
    action: `Bring the node back, or, when its machine is off, delete the Node or taint it with ${outOfService}`,
  };
}

function unready(facts: SandboxFacts): Found | undefined {
  const { metadata, status } = facts.sandbox;
  const ready = findCondition(status?.conditions, "Ready");
  const found = explainPod(facts);
  if (found !== undefined) return { ...found, since: found.since ?? ready?.lastTransitionTime };
  if (ready?.status !== "False") return undefined;
  const { cause, hint, code } = reportOf(status, { ...ready, message: status?.message ?? ready.message });
  return {
    cause,
    reason: code,
    since: ready.lastTransitionTime,
    retry: "It is Ready again as soon as its Pod is",
    action: hint ?? `Read the log of its Pod: kubectl logs ${metadata.name} -n ${metadata.namespace}`,
    foundIn: `pod/${metadata.name}`,
  };
}

/** It runs, but something that was requested has not happened. The condition that matters most counts, not the first. */
function degraded({ sandbox }: SandboxFacts): Found | undefined {
  const [condition] = (sandbox.status?.conditions ?? [])
    .filter(({ type, status, reason }) => status === "False" && !harmless.has(type) && !underWay.has(reason))
    .toSorted((a, b) => rankOf(a.type) - rankOf(b.type));
  if (condition === undefined) return undefined;
  if (condition.type === "SandboxPaused") return unpaused(sandbox, condition);
  const { hint, ...problem } = reportOf(sandbox.status, condition);
  return {
    state: "degraded",
    cause: `It runs, but ${condition.type} is False: ${problem.cause}`,
    reason: problem.code,
    since: condition.lastTransitionTime,
    retry: retries[condition.type] ?? "None",
    action: hint ?? remedies[condition.type] ?? remedyIn(problem, "Change the request as the cause says"),
  };
}

/** It runs on a node that leaves: no other node takes it, or its capture has failed and is repeated. */
function leaving({ sandbox: { status }, now }: SandboxFacts): Found | undefined {
  const { noTarget, disruption } = status?.ramet ?? {};
  const remedy = "Correct what the cause names, or pause the sandbox before its node is removed";
  if (noTarget !== undefined)
    return {
      state: "degraded",
      cause: `Its node leaves (${noTarget.cause}), and no other one takes it: ${noTarget.message}`,
      reason: "NoTarget",
      since: noTarget.at,
      retry: "The controllers move it as soon as a node takes it, and capture it when its Pod is ended",
      action: remedy,
    };
  const { outcome, endedAt, problem } = disruption ?? {};
  if (outcome !== "Withdrawn" || problem === undefined || !(secondsSince(problem.retryAt, now) < 0)) return undefined;
  return {
    state: "degraded",
    cause: `Its node leaves, and it could not be captured: ${problem.cause}`,
    reason: problem.code,
    since: endedAt,
    retry: `The capture is repeated at ${problem.retryAt}`,
    action: remedyIn(problem, remedy),
  };
}

/** It still costs what it was to save, and nothing repeats the pause. */
function unpaused({ metadata, status }: SandboxFacts["sandbox"], condition: Condition): Found {
  const { cause, code, hint } = reportOf(status, condition);
  const at = `${metadata.name} -n ${metadata.namespace}`;
  const again = `ramet sandbox resume ${at} && ramet sandbox pause ${at}`;
  return {
    state: "degraded",
    cause: `It runs, because its pause failed: ${cause}`,
    reason: code,
    since: condition.lastTransitionTime,
    retry: "None: a failed pause is not repeated",
    action: `${hint ?? "Correct what the cause names"}, then run: ${again}`,
  };
}

function rankOf(type: string): number {
  const rank = byWeight.indexOf(type);
  return rank === -1 ? byWeight.length : rank;
}

/** What costs most if it is overlooked comes first. */
const byWeight = [
  "SandboxPaused",
  "EgressApplied",
  "CredentialsApplied",
  "RolledBack",
  "RuntimeInitialized",
  "MemoryLoaded",
];

/**
 * The conditions that need no remedy. `FieldsIgnored` also reports what `AgentRuntimeInjected` reports; `ImageResolved` reports an
 * image that only the nodes can read, with which the sandbox works.
 */
const harmless: ReadonlySet<string> = new Set(["SandboxResumed", "AgentRuntimeInjected", "ImageResolved"]);
const underWay: ReadonlySet<string> = new Set(["Loading", "Pending", "CheckpointCreating", "Restoring"]);

const retries: Readonly<Record<string, string>> = {
  EgressApplied: "The controllers try again when the rules change",
  CredentialsApplied: "The controllers try again every few seconds",
};

const remedies: Readonly<Record<string, string>> = {
  MemoryLoaded: "Delete the sandbox, and clone the checkpoint again",
  RolledBack: "Correct what the cause names, then request the rollback again: ramet rollback",
  RuntimeInitialized: "Correct the variables that the guest rejected, then request them again",
};

/** Then Kubernetes removes the Pods of the node without its word. */
const outOfService = "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute";

/** What a sandbox has if its last Pod was lost. */
function savedState({ status }: SandboxFacts["sandbox"], preposition = ""): string {
  const { checkpoint, savedAt } = status?.ramet?.disruption ?? {};
  return checkpoint === undefined ? "" : `${preposition} of ${savedAt} (checkpoint ${checkpoint}; later work is lost)`;
}

function healthy({ sandbox }: SandboxFacts): Found {
  const image = findCondition(sandbox.status?.conditions, "ImageResolved");
  const rest =
    image?.status === "False" ? `. ${withoutStop(image.message)}` : ", and all its conditions are as requested";
  const moved = movedIn(sandbox);
  return {
    state: "healthy",
    cause: `It is ${sandbox.status?.phase ?? "new"}${rest}${moved}`,
    since: findCondition(sandbox.status?.conditions, "Ready")?.lastTransitionTime,
  };
}

function movedIn(sandbox: SandboxFacts["sandbox"]): string {
  const { outcome, endedAt, cause, problem } = sandbox.status?.ramet?.disruption ?? {};
  if (outcome !== "Migrated" && outcome !== "Restored") return "";
  const from = savedState(sandbox, " with its state");
  const why = problem === undefined ? "" : `. ${sentenceOf(problem)}`;
  return `. It continued in another Pod at ${endedAt}${from}, after its Pod was ended (${cause})${why}`;
}
