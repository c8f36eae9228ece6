import { randomUUID } from "node:crypto";
import type { SandboxSet } from "../../api/kinds/sandbox-set.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { annotations, labels, scaleDownOwner } from "../../api/names/labels.ts";
import { apiVersion } from "../../api/schema/kind.ts";
import type { SetRevision } from "../../api/set/set-revision.ts";
import { setSandbox } from "../../api/set/set-sandbox.ts";
import { RametError } from "../../base/errors.ts";
import { controllerOf, keyOf } from "../../kube/object.ts";
import type { SetDependencies } from "./dependencies.ts";
import { nextFailures } from "./failures.ts";
import type { SetAction, SetState } from "./state.ts";

/** Carries out one action. Each can be repeated; who was claimed or is gone meanwhile is passed over. */
export async function applyAction(
  { set }: SetState,
  action: SetAction,
  dependencies: SetDependencies,
  signal: AbortSignal,
): Promise<void> {
  switch (action.do) {
    case "writeTemplate":
      await writeTemplate(set, action.revision, dependencies);
      return;
    case "markTemplate":
      await ignoreConflict(markTemplate(action, dependencies));
      return;
    case "create":
      await createSandboxes(set, action, dependencies, signal);
      return;
    case "retire":
    case "remove": {
      const giveUp = action.do === "retire" ? retire : remove;
      const isDone = await ignoreConflict(giveUp(action.sandbox, dependencies));
      if (isDone) dependencies.metrics?.deleted(set.metadata, action.why);
      return;
    }
  }
}

/** First the lock, in one write that loses against any other: a claimer that comes later finds it taken. */
async function retire(sandbox: Sandbox, dependencies: SetDependencies): Promise<void> {
  const { informers, sandboxWrites, newSandboxes } = dependencies;
  const { uid, resourceVersion } = sandbox.metadata;
  const locked = { [annotations.lock]: randomUUID(), [annotations.owner]: scaleDownOwner };
  await sandboxWrites.write(sandbox, () =>
    informers.sandboxes.resource.mergePatch(sandbox.metadata, {
      metadata: { uid, resourceVersion, annotations: locked },
    }),
  );
  await informers.sandboxes.resource.delete(sandbox.metadata, { uid });
  newSandboxes.deleting(uid);
}

/** Only as it was judged: somebody may have taken it since. */
async function remove({ metadata }: Sandbox, { informers, newSandboxes }: SetDependencies): Promise<void> {
  const { uid, resourceVersion } = metadata;
  await informers.sandboxes.resource.delete(metadata, { uid, resourceVersion });
  newSandboxes.deleting(uid);
}

/** A lost race is no error: the cache shows what the other one did, and the key comes again. */
async function ignoreConflict(effect: Promise<void>): Promise<boolean> {
  try {
    await effect;
    return true;
  } catch (error) {
    const { code } = RametError.from(error);
    if (code !== "Conflict" && code !== "NotFound") throw error;
    return false;
  }
}

/**
 * Writes a revision out as a SandboxTemplate, for people to read and compare. No sandbox depends on it, so a name that is
 * somebody else's is left to them.
 */
async function writeTemplate(
  set: SandboxSet,
  { templateName, hash, spec }: SetRevision,
  { informers: { templates }, newTemplates, events }: SetDependencies,
): Promise<void> {
  const { name, namespace, uid } = set.metadata;
  const key = keyOf({ namespace, name: templateName });
  if (newTemplates.has(key)) return;
  const owner = { apiVersion, kind: "SandboxSet", name, uid, controller: true, blockOwnerDeletion: false };
  const metadata = {
    name: templateName,
    namespace,
    labels: { [labels.sandboxPool]: name, [labels.templateHash]: hash },
    ownerReferences: [owner],
  };
  try {
    await templates.resource.create({ apiVersion, kind: "SandboxTemplate", metadata, spec });
  } catch (error) {
    if (RametError.from(error).code !== "AlreadyExists") throw error;
    const found = await templates.resource.find(metadata);
    const holder = found && controllerOf(found);
    // An earlier set of this name had it, and it is on its way out: the key comes again with its end.
    if (holder?.kind === "SandboxSet" && holder.uid !== uid) return;
    if (holder?.uid !== uid) events.record(set, taken(templateName));
  }
  newTemplates.add(key);
}

function taken(name: string) {
  const note = `A SandboxTemplate ${name} exists and is not this set's, so the present revision is not written out`;
  return { type: "Warning", reason: "TemplateNameTaken", action: "WriteTemplate", note } as const;
}

/** Says of a revision that nobody needs it, or takes that back. */
async function markTemplate(
  { template: { metadata }, candidate }: Extract<SetAction, { do: "markTemplate" }>,
  { informers: { templates } }: SetDependencies,
): Promise<void> {
  const { uid } = metadata;
  const mark = { [annotations.cleanupCandidate]: candidate ? "true" : null };
  await templates.resource.mergePatch(metadata, { metadata: { uid, annotations: mark } });
}

type Create = Extract<SetAction, { do: "create" }>;

/**
 * Makes sandboxes in batches that double, one at first, for as long as all of a batch are made: what is wrong with one is
 * mostly wrong with all.
 * @throws RametError what the API server may take another time; a refusal is remembered as a failure of the revision
 */
async function createSandboxes(
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
    recordRejection(set, create, dependencies, RametError.from(failed.reason));
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
  newSandboxes.requested(uid, { name, namespace, revisionHash: revision.hash });
  try {
    newSandboxes.created(uid, await informers.sandboxes.resource.create(manifest));
    metrics?.created(set.metadata);
  } catch (thrown) {
    const error = RametError.from(thrown);
    // Nobody knows whether one that was not answered came to be: it counts until the API server was asked.
    if (!error.retryable) newSandboxes.removed(uid, name);
    // The next one gets another name.
    if (error.code !== "AlreadyExists") throw error;
  }
}

function recordRejection(
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
    now,
    random,
  });
  if (next !== undefined) failures.set(uid, next);
}
