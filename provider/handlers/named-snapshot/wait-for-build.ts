import { RametError } from "../../../src/base/errors.ts";
import type { NamedSnapshot } from "../../../src/api/kinds/named-snapshot.ts";
import type { NamedSnapshotStatus } from "../../../src/api/kinds/named-snapshot-status.ts";
import { findCondition } from "../../../src/kube/conditions.ts";
import type { ResourceClient } from "../../../src/kube/resource-client.ts";
import { follow, logIgnored } from "../follow.ts";

export interface BuildWait {
  snapshots: ResourceClient<NamedSnapshot>;
  /** The response to the write that requested the build. */
  from: NamedSnapshot;
  /** The digest of the inputs. Undefined if only the controller can compute it. */
  digest: string | undefined;
  /** The value of `ramet.dev/build-request` that the controller must have observed, if one was written. */
  retryRequest?: string;
  timeoutMilliseconds: number;
  signal: AbortSignal;
  log: (line: string) => void;
}

/**
 * Waits until the current version was built from the inputs, and logs each step.
 * @throws RametError with the reason of a failed build; for a step its number, exit code and last output
 */
export async function waitForBuild(build: BuildWait): Promise<NamedSnapshot> {
  const { snapshots, from, timeoutMilliseconds, signal } = build;
  const { clock } = snapshots.client;
  const started = clock.monotonicMilliseconds();
  const logChange = onChange(build.log);
  const found = await follow({
    resource: snapshots,
    from,
    what: `the snapshot ${from.metadata.name}`,
    until: (seen) => {
      logChange(describe(build, seen));
      return hasEnded(build, seen, clock.monotonicMilliseconds() - started);
    },
    requeueAfterMilliseconds: settlingMilliseconds,
    timeoutMilliseconds,
    signal,
  });
  if (found === undefined || found.metadata.deletionTimestamp !== undefined) throw removed(from.metadata.name);
  const building = findCondition(found.status?.conditions, "Building");
  if (building === undefined || !harmless.has(building.reason)) throw notBuilt(found, building?.message ?? "");
  if (building.reason === "Built" && !hasDigest(build, found.status?.digest)) throw builtFromOtherInputs(found);
  logIgnored(found, build.log);
  return found;
}

function hasEnded(build: BuildWait, seen: NamedSnapshot | undefined, waited: number): boolean {
  if (seen === undefined || seen.metadata.deletionTimestamp !== undefined) return true;
  const building = findCondition(seen.status?.conditions, "Building");
  if (building?.status !== "False" || !isOf(build.from, seen.status)) return false;
  // The controller may not have observed recent changes of other objects yet.
  return isObserved(build, seen.status ?? {}, building.reason) ?? waited >= settlingMilliseconds;
}

/** Whether the status is about these inputs. Undefined if it is not and may never be. */
function isObserved(build: BuildWait, status: NamedSnapshotStatus, reason: string): boolean | undefined {
  if (reason === "InputMissing") return undefined;
  if (reason === "Built") return hasDigest(build, status.digest) || undefined;
  if (!failures.has(reason)) return true;
  if (!hasDigest(build, status.build?.digest)) return undefined;
  return build.retryRequest === undefined || status.build?.request === build.retryRequest;
}

/** Inputs in other objects change without the spec, so the generation alone is not enough. */
function hasDigest({ digest }: BuildWait, found: string | undefined): boolean {
  return digest === undefined || found === digest;
}

function isOf({ metadata }: NamedSnapshot, status: NamedSnapshot["status"]): boolean {
  return (status?.observedGeneration ?? 0) >= (metadata.generation ?? 0);
}

function removed(name: string): RametError {
  return new RametError("Conflict", `The snapshot ${name} was deleted during the build`);
}

function notBuilt({ metadata: { name }, status }: NamedSnapshot, why: string): RametError {
  const current = status?.version === undefined ? "there is no version yet" : `version ${status.version} stays current`;
  return new RametError("StepFailed", `The snapshot ${name} was not built (${current}): ${why.trimEnd()}`, {
    hint: `Correct the recipe, or run pulumi up again to retry; show the whole log with: ramet snapshot logs ${name}`,
  });
}

function builtFromOtherInputs({ metadata: { name }, status }: NamedSnapshot): RametError {
  const what = `Version ${status?.version ?? "?"} of the snapshot ${name} was built from other inputs than the program's`;
  return new RametError("Conflict", `${what}: an object that it is built from was changed in the cluster`, {
    hint: "Run pulumi refresh, then pulumi up; if that does not help, check that the controllers run",
  });
}

function describe(build: BuildWait, seen: NamedSnapshot | undefined): string {
  // Ignore the status of earlier inputs.
  if (seen === undefined || !isOf(build.from, seen.status)) return waiting;
  const { conditions, version = "?", digest, progress } = seen.status ?? {};
  const building = findCondition(conditions, "Building");
  if (building === undefined) return waiting;
  if (building.reason === "Built") return hasDigest(build, digest) ? `version ${version} is current` : waiting;
  const done = progress === undefined ? "" : ` (${progress} steps done)`;
  return `${building.message.split("\n")[0] ?? ""}${done}`;
}

const waiting = "waiting for the controller";

function onChange(log: (line: string) => void): (line: string) => void {
  let last: string | undefined;
  return (line) => {
    if (line !== last) log(line);
    last = line;
  };
}

const harmless = new Set(["Built", "Pinned", "Suspended"]);
const failures = new Set(["StepFailed", "BuilderFailed", "CaptureFailed"]);
const settlingMilliseconds = 20_000;
