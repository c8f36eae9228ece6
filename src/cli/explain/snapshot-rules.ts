import type { NamedSnapshot } from "../../api/kinds/named-snapshot.ts";
import type { Condition } from "../../api/schema/metadata.ts";
import { repeatedNumbers } from "../../api/state/named-snapshot.ts";
import { findCondition } from "../../kube/conditions.ts";
import { unprocessed } from "./controller-rules.ts";
import {
  completed,
  type Explanation,
  type Found,
  nothingToDo,
  reported,
  reportOf,
  withoutStop,
} from "./explanation.ts";
import { type Cause, type CommonFacts, foundIn, isProblem } from "./facts.ts";

export interface SnapshotFacts extends CommonFacts {
  snapshot: NamedSnapshot;
  /** Why the sandbox or the checkpoint that the build waits for is in its state. */
  awaited: Cause | undefined;
}

export function explainSnapshot(facts: SnapshotFacts): Explanation {
  return completed(unprocessed(facts.snapshot, facts) ?? stateOf(facts));
}

function stateOf(facts: SnapshotFacts): Found {
  const { snapshot } = facts;
  const building = findCondition(snapshot.status?.conditions, "Building");
  const found = building === undefined ? undefined : explainBuild(facts, building);
  const version = snapshot.status?.version;
  if (found === undefined) return ofEarlierEngine(snapshot) ?? ready(snapshot);
  // The current version stays usable whatever happens to a build.
  if (version === undefined || found.state === "healthy") return found;
  const state = found.state === "waiting" ? "waiting" : "degraded";
  return {
    ...found,
    state,
    cause: `Version ${version} is current and can be cloned, but a new one is not built: ${found.cause}`,
  };
}

function explainBuild(facts: SnapshotFacts, building: Condition): Found | undefined {
  if (building.status === "True") return underWay(facts, building);
  switch (building.reason) {
    case "Built":
      return undefined;
    case "StepFailed":
      return stepFailed(facts.snapshot, building);
    case "Suspended":
    case "Pinned":
      return held(facts.snapshot, building);
    default:
      return stopped(facts, building);
  }
}

/** After an upgrade. The version stays usable, so nothing is wrong with it. */
function ofEarlierEngine({ status }: NamedSnapshot): Found | undefined {
  const condition = findCondition(status?.conditions, "EngineCurrent");
  if (condition?.status !== "False") return undefined;
  const { reason, lastTransitionTime } = condition;
  const { cause, hint = nothingToDo } = reportOf(status, condition);
  return {
    state: "healthy",
    cause,
    reason,
    since: lastTransitionTime,
    retry: automatic.has(reason) ? "It is captured again without you" : "None: it keeps its engine",
    action: hint,
  };
}

const automatic = new Set(["Upgrading", "UpgradeWaiting", "SourceUpgrading", "VersionOutdated", "UpgradeFailed"]);

function ready({ status }: NamedSnapshot): Found {
  const condition = findCondition(status?.conditions, "Ready");
  const cause = condition?.message ?? "It has not been built";
  const since = condition?.lastTransitionTime;
  if (condition?.status !== "True") return { state: "waiting", cause, since };
  const current = status?.versions?.find(({ version }) => version === status.version);
  const repeated = current && repeatedNumbers(current);
  if (repeated === undefined) return { state: "healthy", cause, since };
  return { state: "healthy", cause: `${cause}. ${repeated.cause}`, since, action: repeated.hint };
}

function underWay({ snapshot, awaited }: SnapshotFacts, { reason, message, lastTransitionTime }: Condition): Found {
  if (isProblem(awaited)) {
    const { object, explanation } = awaited;
    return {
      ...explanation,
      cause: `The build waits for ${object}: ${explanation.cause}`,
      ...foundIn(awaited),
    };
  }
  const { name, namespace } = snapshot.metadata;
  const isQuota = reason === "BuildQuotaReached" || reason === "FetchQuotaReached";
  return {
    state: "waiting",
    cause: withoutStop(message),
    reason,
    since: lastTransitionTime,
    retry: isQuota ? "It continues when another build of the namespace has ended" : "The build is running",
    action: isQuota ? nothingToDo : `Follow it, if you like: ramet snapshot logs ${name} -f -n ${namespace}`,
  };
}

function stepFailed({ metadata, status }: NamedSnapshot, building: Condition): Found {
  const { reason, lastTransitionTime } = building;
  const { failure, endedAt = lastTransitionTime } = status?.build ?? {};
  const number = failure?.step;
  const output = number === undefined ? undefined : status?.steps?.[number - 1]?.output;
  const logs = `ramet snapshot logs ${metadata.name} -n ${metadata.namespace}`;
  return {
    state: "failed",
    cause: withOutput(reportOf(status, building).cause, output),
    reason,
    since: endedAt,
    retry: "None: a failed recipe is not repeated until it changes or a build is requested",
    action: `Correct ${number === undefined ? "the recipe" : `step ${number} of the recipe`}; its whole output: ${logs}`,
  };
}

function withOutput(cause: string, output = ""): string {
  const last = output.trim().split("\n").at(-1) ?? "";
  return last === "" || cause.includes(last) ? cause : `${cause}. Its last output: ${last}`;
}

function held({ status }: NamedSnapshot, building: Condition): Found {
  const { cause, hint = nothingToDo } = reportOf(status, building);
  return {
    state: "healthy",
    cause,
    reason: building.reason,
    since: building.lastTransitionTime,
    retry: "None: it is held on purpose",
    action: hint,
  };
}

function retryOf({ status }: NamedSnapshot): string {
  return status?.build?.upgrade === undefined
    ? "None: a failed build is not repeated until the recipe changes or a build is requested"
    : "The upgrade to another engine is repeated an hour after it failed";
}

/** The build ended, or cannot start because of its inputs. */
function stopped({ snapshot, awaited }: SnapshotFacts, building: Condition): Found {
  const { name, namespace } = snapshot.metadata;
  const { reason } = building;
  const waitsForInput = reason === "InputMissing" || reason === "Cycle" || reason === "Deleting";
  const otherwise =
    awaited?.explanation.action ?? `Remove the cause, then run: ramet snapshot build ${name} -n ${namespace}`;
  return reported(snapshot.status, building, {
    state: waitsForInput ? "stuck" : "failed",
    retry: waitsForInput ? "The controllers look again every 10 seconds" : retryOf(snapshot),
    otherwise,
  });
}
