import { RametError } from "../../../src/api/errors.ts";
import type { NamedSnapshot } from "../../../src/api/named-snapshot.ts";
import { findCondition } from "../../../src/kube/conditions.ts";
import type { ResourceClient } from "../../../src/kube/resource-client.ts";
import { follow } from "../follow.ts";

export interface BuildToFollow {
  snapshots: ResourceClient<NamedSnapshot>;
  /** As it was answered to the write that wishes for the build. */
  from: NamedSnapshot;
  /** The `ramet.dev/build-request` that must have been heard of, if one was made. */
  request?: string;
  timeoutMilliseconds: number;
  say: (line: string) => void;
}

/**
 * Waits until a named snapshot serves what is wanted, and tells each step.
 * @throws RametError saying why it cannot be built: of a step, its number, its exit code and what it printed last
 */
export async function untilBuilt(build: BuildToFollow): Promise<NamedSnapshot> {
  const { snapshots, from, timeoutMilliseconds } = build;
  const { clock } = snapshots.client;
  const begun = clock.monotonicMilliseconds();
  const tell = onChange(build.say);
  const found = await follow({
    resource: snapshots,
    from,
    what: `the snapshot ${from.metadata.name}`,
    until: (seen) => {
      tell(describe(build, seen));
      return hasEnded(build, seen, clock.monotonicMilliseconds() - begun);
    },
    lookAgainAfterMilliseconds: missingMilliseconds,
    timeoutMilliseconds,
  });
  const building = findCondition(found?.status?.conditions, "Building");
  if (found !== undefined && building !== undefined && harmless.has(building.reason)) return found;
  throw notBuilt(from.metadata.name, found);
}

function hasEnded(wish: BuildToFollow, seen: NamedSnapshot | undefined, waited: number): boolean {
  if (seen === undefined || seen.metadata.deletionTimestamp !== undefined) return true;
  const building = findCondition(seen.status?.conditions, "Building");
  if (building?.status !== "False" || !isHeard(wish, seen, building.reason)) return false;
  // What was made a moment ago may not be known to the controller yet.
  return building.reason !== "InputMissing" || waited >= missingMilliseconds;
}

function isHeard({ from, request }: BuildToFollow, { status }: NamedSnapshot, reason: string): boolean {
  if (!isOf(from, status)) return false;
  return request === undefined || reason === "Built" || status?.build?.request === request;
}

function isOf({ metadata }: NamedSnapshot, status: NamedSnapshot["status"]): boolean {
  return (status?.observedGeneration ?? 0) >= (metadata.generation ?? 0);
}

function notBuilt(name: string, found: NamedSnapshot | undefined): RametError {
  if (found === undefined || found.metadata.deletionTimestamp !== undefined) {
    return new RametError("Conflict", `The snapshot ${name} was removed while it was waited for`);
  }
  const building = findCondition(found.status?.conditions, "Building");
  const { version } = found.status ?? {};
  const serves = version === undefined ? "no version serves yet" : `version ${version} goes on serving`;
  return new RametError("StepFailed", `The snapshot ${name} was not built, and ${serves}: ${building?.message ?? ""}`, {
    hint: `Correct the recipe, or run pulumi up again to try it once more; ramet snapshot logs ${name} prints all of it`,
  });
}

function describe({ from }: BuildToFollow, seen: NamedSnapshot | undefined): string {
  // What it says of an earlier wish is no news.
  if (seen === undefined || !isOf(from, seen.status)) return unheard;
  const { conditions, version = "?", progress } = seen.status ?? {};
  const building = findCondition(conditions, "Building");
  if (building === undefined) return unheard;
  if (building.reason === "Built") return `version ${version} serves`;
  const done = progress === undefined ? "" : ` (${progress} steps done)`;
  return `${building.message.split("\n")[0] ?? ""}${done}`;
}

const unheard = "waiting for the controller";

function onChange(say: (line: string) => void): (line: string) => void {
  let last: string | undefined;
  return (line) => {
    if (line !== last) say(line);
    last = line;
  };
}

const harmless = new Set(["Built", "Pinned", "Suspended"]);
const missingMilliseconds = 20_000;
