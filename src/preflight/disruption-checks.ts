import { annotations } from "../api/names/labels.ts";
import { captureTime, disruptionPolicyOf, graceSecondsFor, leastHeldSeconds } from "../api/pod/disruption.ts";
import type { Pod } from "../api/schema/pod.ts";
import { storeSpeed } from "../api/state/checkpoint.ts";
import { selects } from "../api/state/target.ts";
import { controllerOf } from "../kube/object.ts";
import type { ClusterFacts, DisruptionBudget } from "./cluster-facts.ts";
import { checkNamed, type Finding, listed } from "./finding.ts";
import { captureSize } from "./plan-drain.ts";

/** Checks whether sandboxes survive the maintenance of their nodes. */
export function checkDisruptions(facts: ClusterFacts): Finding[] {
  return [gracePeriods(facts), earlierPods(facts), budgets(facts), shutdowns(facts)];
}

function gracePeriods({ cells, captures }: ClusterFacts): Finding {
  const check = checkNamed("grace-periods");
  if ("unknown" in cells) return check.unread("Whether grace periods suffice is", cells);
  const held = cells.value.filter((pod) => disruptionPolicyOf(pod) !== "End");
  if (held.length === 0) return check.ok("No sandbox runs that is captured when its node is drained");
  if ("unknown" in captures) return check.unread("Whether grace periods suffice is", captures);
  const speed = storeSpeed(captures.value);
  if (speed === undefined) {
    return check.unknown(
      "Whether grace periods suffice is unknown: no checkpoint of 16 MiB or more has shown the store's speed",
      "Capture a large sandbox: ramet checkpoint create NAME",
    );
  }
  const needs = held.flatMap((pod) => {
    const size = captureSize(pod, captures.value);
    return size === undefined ? [] : [{ pod, seconds: captureTime(size.sizeBytes, speed) }];
  });
  const tooShort = needs
    .filter(({ pod, seconds }) => seconds > leastHeldSeconds(pod.spec.terminationGracePeriodSeconds))
    .sort((a, b) => b.seconds - a.seconds);
  const [worst] = tooShort;
  if (worst !== undefined) {
    const { terminationGracePeriodSeconds: grace } = worst.pod.spec;
    return check.warning(
      `The grace period is too short for a capture of ${listed(tooShort.map(({ pod }) => nameOf(pod)))}: ${nameOf(worst.pod)} needs up to ${Math.ceil(worst.seconds)} s, and ${grace ?? 30} s leave ${Math.floor(leastHeldSeconds(grace))} s`,
      `Set terminationGracePeriodSeconds to at least ${graceSecondsFor(worst.seconds)} in the template`,
    );
  }
  const unknown = held.length - needs.length;
  const except = unknown === 0 ? "" : `, except for ${unknown} without a memory limit and a checkpoint`;
  return check.ok(`The grace periods suffice for a capture of each sandbox${except}`);
}

function earlierPods({ cells }: ClusterFacts): Finding {
  const check = checkNamed("earlier-pods");
  if ("unknown" in cells) return check.unread("The release that sandboxes run with is", cells);
  const earlier = cells.value.filter((pod) => pod.metadata.annotations?.[annotations.onDisruption] === undefined);
  if (earlier.length === 0) return check.ok("No sandbox runs in a Pod of an earlier release");
  return check.warning(
    `Sandboxes run in Pods of an earlier release, and a drain loses them: ${listed(earlier.map(nameOf))}`,
    "Pause and resume them before you drain their nodes",
  );
}

function budgets({ cells, budgets: seen }: ClusterFacts): Finding {
  const check = checkNamed("disruption-budgets");
  if ("unknown" in cells) return check.unread("Whether sandboxes can be evicted is", cells);
  if ("unknown" in seen) return check.unread("Whether sandboxes can be evicted is", seen);
  const selecting = cells.value.map((pod) => ({ pod, budgets: seen.value.filter((one) => isSelectedBy(one, pod)) }));
  const twice = selecting.filter((one) => one.budgets.length > 1);
  if (twice.length > 0) {
    return check.warning(
      `No drain can evict sandboxes that two PodDisruptionBudgets select: ${listed(twice.map(({ pod }) => nameOf(pod)))}`,
      "Change the selectors, so that one budget selects each Pod",
    );
  }
  const blocking = seen.value.filter(
    (one) =>
      isPermanent(one) && one.status.disruptionsAllowed === 0 && cells.value.some((pod) => isSelectedBy(one, pod)),
  );
  if (blocking.length === 0) return check.ok("No PodDisruptionBudget keeps sandboxes from being evicted");
  return check.warning(
    `PodDisruptionBudgets allow no eviction of sandboxes now, so drains of their nodes wait: ${listed(blocking.map(nameOf))}`,
    "Delete them, or let them allow an eviction: a sandbox is captured before its Pod ends",
  );
}

function isSelectedBy({ metadata, spec }: DisruptionBudget, pod: Pod): boolean {
  const isThere = metadata.namespace === pod.metadata.namespace;
  return isThere && spec.selector != null && selects(spec.selector, pod.metadata.labels ?? {});
}

/** Unlike that of a set, which waits for others of its sandboxes. */
function isPermanent({ metadata }: DisruptionBudget): boolean {
  return controllerOf({ metadata })?.kind !== "SandboxSet";
}

/** At a shutdown, a kubelet ends Pods itself, and the API server is told afterwards. */
function shutdowns({ shutdowns: seen }: ClusterFacts): Finding {
  const check = checkNamed("node-shutdown");
  if ("unknown" in seen) return check.unread("How long kubelets wait at a shutdown of their node is", seen);
  const graceful = seen.value.filter(({ seconds }) => seconds > 0);
  const within =
    graceful.length === 0 ? "immediately" : `within ${Math.max(...graceful.map(({ seconds }) => seconds))} s`;
  return check.ok(
    seen.value.length === 0
      ? "No kubelet ends Pods at a shutdown of its node"
      : `At a shutdown of a node, kubelets end Pods ${within} and sandboxes that are not captured by then are lost: drain nodes first`,
  );
}

function nameOf({ metadata }: Pick<DisruptionBudget, "metadata">): string {
  return `${metadata.namespace}/${metadata.name}`;
}
