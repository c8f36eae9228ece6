import type { SandboxSet } from "../api/kinds/sandbox-set.ts";
import { hasExactStock, setState } from "../api/state/set.ts";
import { RametError } from "../base/errors.ts";
import { describeReport, failureOf } from "../kube/conditions.ts";
import { settlingMilliseconds } from "./await-build.ts";
import type { Settled, Wait, Watched } from "./objects.ts";

export interface SetWait extends Wait {
  /**
   * `ready`: its sandboxes are available and of the current revision. `exact`: it also has no more of them than requested, but they
   * can be of an earlier revision.
   */
  goal: "ready" | "exact";
}

/**
 * Waits until the sandboxes of a set are ready, or until they do not start. Failures count after a moment: at first, the controllers
 * may report those of an earlier template.
 * @param written the set as it was read after the change
 * @throws RametError `Timeout` or `Canceled`
 */
export async function awaitSet(
  sets: Watched<SandboxSet>,
  written: SandboxSet,
  { goal, ...wait }: SetWait,
): Promise<Settled<SandboxSet>> {
  const { name, generation } = written.metadata;
  return sets.follow(written, {
    what: `the set ${name}`,
    until: (set, waited) => {
      if (set === undefined) {
        return { failure: new RametError("Conflict", `The set ${name} was deleted during the wait`) };
      }
      const { is } = setState(set, generation);
      if (goal === "exact" ? hasExactStock(set) : is === "ready") return { object: set };
      if (is !== "failing" || waited < settlingMilliseconds) return undefined;
      return { failure: failureIn(set) };
    },
    requeueAfterMilliseconds: settlingMilliseconds,
    describe: describeSet,
    ...wait,
  });
}

function failureIn(set: SandboxSet): RametError {
  const { name } = set.metadata;
  if (setState(set).reason !== "StartFailing")
    return failureOf(`The set ${name} cannot be filled`, set, "SandboxNotReady");
  const why = describeReport(set) ?? "it gave no reason";
  return new RametError("SandboxNotReady", `The sandboxes of the set ${name} do not start: ${why}`);
}

/** `at 2 of 3 ready sandboxes`, with what is missing. */
function describeSet(set: SandboxSet | undefined): string {
  if (set === undefined) return "deleted";
  const { is, message } = setState(set);
  if (is === "waiting") return "waiting for the controller";
  if (is === "ready") return "ready";
  const count = `at ${set.status?.availableReplicas ?? 0} of ${set.spec.replicas} ready sandboxes`;
  return message === "" ? count : `${count}: ${message}`;
}
