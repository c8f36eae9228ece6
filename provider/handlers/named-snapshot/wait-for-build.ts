import { RametError } from "../../../src/base/errors.ts";
import type { NamedSnapshot } from "../../../src/api/kinds/named-snapshot.ts";
import type { NamedSnapshotStatus } from "../../../src/api/kinds/named-snapshot-status.ts";
import { findCondition } from "../../../src/kube/conditions.ts";
import type { ResourceClient } from "../../../src/kube/resource-client.ts";
import { follow } from "../follow.ts";

export interface BuildWait {
  snapshots: ResourceClient<NamedSnapshot>;
  /** As it was answered to the write that wishes for the build. */
  from: NamedSnapshot;
  /** Of the inputs; undefined where only the controller can compute it. */
  digest: string | undefined;
  /** The `ramet.dev/build-request` that must have been heard of, if one was made. */
  request?: string;
  timeoutMilliseconds: number;
  say: (line: string) => void;
}

/**
 * Waits until a named snapshot serves what is wanted, and tells each step.
 * @throws RametError saying why it cannot be built: of a step, its number, its exit code and what it printed last
 */
export async function waitForBuild(build: BuildWait): Promise<NamedSnapshot> {
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
    requeueAfterMilliseconds: settlingMilliseconds,
    timeoutMilliseconds,
  });
  if (found === undefined || found.metadata.deletionTimestamp !== undefined) throw removed(from.metadata.name);
  const building = findCondition(found.status?.conditions, "Building");
  if (building === undefined || !harmless.has(building.reason)) throw notBuilt(found, building?.message ?? "");
  if (building.reason === "Built" && !isWanted(build, found.status?.digest)) throw ofOtherInputs(found);
  return found;
}

function hasEnded(build: BuildWait, seen: NamedSnapshot | undefined, waited: number): boolean {
  if (seen === undefined || seen.metadata.deletionTimestamp !== undefined) return true;
  const building = findCondition(seen.status?.conditions, "Building");
  if (building?.status !== "False" || !isOf(build.from, seen.status)) return false;
  // What was made or changed a moment ago may not be known to the controller yet.
  return isHeard(build, seen.status ?? {}, building.reason) ?? waited >= settlingMilliseconds;
}

/** Whether the status tells of this wish; undefined where it does not and may never do. */
function isHeard(build: BuildWait, status: NamedSnapshotStatus, reason: string): boolean | undefined {
  if (reason === "InputMissing") return undefined;
  if (reason === "Built") return isWanted(build, status.digest) || undefined;
  if (!failures.has(reason)) return true;
  if (!isWanted(build, status.build?.digest)) return undefined;
  return build.request === undefined || status.build?.request === build.request;
}

/** Inputs that stand in other objects change without the spec, so the generation alone does not tell. */
function isWanted({ digest }: BuildWait, found: string | undefined): boolean {
  return digest === undefined || found === digest;
}

function isOf({ metadata }: NamedSnapshot, status: NamedSnapshot["status"]): boolean {
  return (status?.observedGeneration ?? 0) >= (metadata.generation ?? 0);
}

function removed(name: string): RametError {
  return new RametError("Conflict", `The snapshot ${name} was removed while it was waited for`);
}

function notBuilt({ metadata: { name }, status }: NamedSnapshot, why: string): RametError {
  const serves = status?.version === undefined ? "no version serves yet" : `version ${status.version} goes on serving`;
  return new RametError("StepFailed", `The snapshot ${name} was not built, and ${serves}: ${why}`, {
    hint: `Correct the recipe, or run pulumi up again to try it once more; ramet snapshot logs ${name} prints all of it`,
  });
}

function ofOtherInputs({ metadata: { name }, status }: NamedSnapshot): RametError {
  const what = `The snapshot ${name} serves version ${status?.version ?? "?"}, which was built from other inputs than the program's`;
  return new RametError("Conflict", `${what}: something that it is built from has been changed in the cluster`, {
    hint: "Run pulumi refresh, and then pulumi up again; if that changes nothing, see whether the controllers run",
  });
}

function describe(build: BuildWait, seen: NamedSnapshot | undefined): string {
  // What it says of an earlier wish is no news.
  if (seen === undefined || !isOf(build.from, seen.status)) return unheard;
  const { conditions, version = "?", digest, progress } = seen.status ?? {};
  const building = findCondition(conditions, "Building");
  if (building === undefined) return unheard;
  if (building.reason === "Built") return isWanted(build, digest) ? `version ${version} serves` : unheard;
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
const failures = new Set(["StepFailed", "BuilderFailed", "CaptureFailed"]);
const settlingMilliseconds = 20_000;
