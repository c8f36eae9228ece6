import { RametError } from "../../base/errors.ts";
import type { SandboxSet } from "../../api/kinds/sandbox-set.ts";
import { setSandbox } from "../../api/set/set-sandbox.ts";
import type { SetDependencies } from "./dependencies.ts";
import { nextFailures } from "./failures.ts";
import type { SetAction } from "./state.ts";

type Create = Extract<SetAction, { do: "create" }>;

/**
 * Makes sandboxes in batches that double, one at first, for as long as all of a batch are made: what is wrong with one is
 * mostly wrong with all.
 * @throws RametError what the API server may take another time; a refusal is remembered as a failure of the revision
 */
export async function createSandboxes(
  set: SandboxSet,
  create: Create,
  dependencies: SetDependencies,
  signal: AbortSignal,
): Promise<void> {
  for (let left = create.count, batch = 1; left > 0 && batch <= largestBatch; batch *= 2) {
    if (signal.aborted) return;
    const count = Math.min(left, batch);
    left -= count;
    const creations = Array.from({ length: count }, () => createOne(set, create, dependencies));
    const failed = (await Promise.allSettled(creations)).find(({ status }) => status === "rejected");
    if (failed?.status !== "rejected") continue;
    refuse(set, create, dependencies, RametError.from(failed.reason));
    return;
  }
}

/**
 * More than that at once only wait for each other in the API server. After it the reconcile ends, and the next one goes on
 * with what has changed meanwhile.
 */
const largestBatch = 64;

/** The name is chosen here and remembered before the request: an answer that is lost does not make a second one. */
async function createOne(set: SandboxSet, { revision }: Create, dependencies: SetDependencies): Promise<void> {
  const { informers, newSandboxes, random, metrics } = dependencies;
  const { uid } = set.metadata;
  const manifest = setSandbox(set, revision, random);
  const { name, namespace } = manifest.metadata;
  newSandboxes.asked(uid, { name, namespace, revisionHash: revision.hash });
  try {
    newSandboxes.answered(uid, await informers.sandboxes.resource.create(manifest));
    metrics?.created(set.metadata);
  } catch (thrown) {
    const error = RametError.from(thrown);
    // Nobody knows whether one that was not answered came to be: it counts until the API server was asked.
    if (!error.retryable) newSandboxes.refused(uid, name);
    // The next one gets another name.
    if (error.code !== "AlreadyExists") throw error;
  }
}

function refuse(
  { metadata: { uid } }: SandboxSet,
  { revision }: Create,
  { failures, clock, random }: SetDependencies,
  error: RametError,
): void {
  if (error.retryable) throw error;
  const now = clock.now();
  const next = nextFailures(failures.get(uid), {
    revisionHash: revision.hash,
    ended: [{ uid: `refused at ${now.toISOString()}`, message: error.describe() }],
    monotonicMilliseconds: clock.monotonicMilliseconds(),
    ...{ now, random },
  });
  if (next !== undefined) failures.set(uid, next);
}
