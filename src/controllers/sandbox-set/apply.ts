import { randomUUID } from "node:crypto";
import type { SandboxSet } from "../../api/kinds/sandbox-set.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { annotations, labels, scaleDownOwner } from "../../api/names/labels.ts";
import { apiVersion } from "../../api/schema/kind.ts";
import { type SetRevision, setSandbox } from "../../api/set/set-revision.ts";
import { problemOf } from "../../api/state/problem.ts";
import { RametError, unlessCode } from "../../base/errors.ts";
import { controllerOf, keyOf } from "../../kube/object.ts";
import type { SetDependencies } from "./gather.ts";
import { nextFailures } from "./failures.ts";
import type { SetAction, SetState } from "./state.ts";

/** Carries out one action. Actions can be repeated: sandboxes that were claimed or deleted meanwhile are skipped. */
export async function applyAction(
  { set }: SetState,
  action: SetAction,
  dependencies: SetDependencies,
  signal: AbortSignal,
): Promise<unknown> {
  switch (action.do) {
    case "writeTemplate":
      return writeTemplate(set, action.revision, dependencies);
    case "markTemplate":
      return ignoreConflict(markTemplate(action, dependencies));
    case "create":
      return createSandboxes(set, action, dependencies, signal);
    case "retire":
    case "remove": {
      const giveUp = action.do === "retire" ? retire : remove;
      const isDone = await ignoreConflict(giveUp(action.sandbox, dependencies));
      if (isDone) dependencies.metrics?.deleted(set.metadata, action.why);
      return;
    }
  }
}

/** Locks the sandbox first, in one write that fails if anything has changed, so that it cannot be claimed any more. */
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

/** Deletes only the version that was planned for: it may have been claimed since. */
async function remove({ metadata }: Sandbox, { informers, newSandboxes }: SetDependencies): Promise<void> {
  const { uid, resourceVersion } = metadata;
  await informers.sandboxes.resource.delete(metadata, { uid, resourceVersion });
  newSandboxes.deleting(uid);
}

/** A conflict is not an error: the cache shows the other change, and the key is reconciled again. */
async function ignoreConflict(effect: Promise<void>): Promise<boolean> {
  return (await effect.then(() => true).catch(unlessCode("Conflict", "NotFound"))) ?? false;
}

/**
 * Writes a revision as a SandboxTemplate for people to read and compare. No sandbox depends on it, so an existing template of
 * another owner is left alone.
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
  const holder = controllerOf(await templates.resource.ensure({ apiVersion, kind: "SandboxTemplate", metadata, spec }));
  // It belongs to an earlier set of this name and is being deleted; its deletion reconciles the key again.
  if (holder?.kind === "SandboxSet" && holder.uid !== uid) return;
  if (holder?.uid !== uid) events.record(set, taken(templateName));
  newTemplates.add(key);
}

function taken(name: string) {
  const note = `Cannot write the current revision as the SandboxTemplate ${name}: one with this name exists and does not belong to this set`;
  return { type: "Warning", reason: "TemplateNameTaken", action: "WriteTemplate", note } as const;
}

/** Marks a revision as unneeded, or removes the mark. */
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
 * Creates sandboxes in batches that start at one and double while all of a batch succeed: an error usually affects all of them.
 * @throws RametError a retryable error. Any other error is recorded as a failure of the revision
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
 * More concurrent requests only queue in the API server. After this batch the reconcile ends, and the next one continues with the
 * current state.
 */
const largestBatch = 64;

/** Chooses the name and records it before the request, so that a lost response does not lead to a second sandbox. */
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
    // After a retryable error the sandbox may exist: it counts until the API server is asked.
    if (!error.retryable) newSandboxes.removed(uid, name);
    // The next attempt uses another name.
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
    ended: [{ uid: `rejected at ${now.toISOString()}`, message: error.describe(), problem: problemOf(error) }],
    monotonicMilliseconds: clock.monotonicMilliseconds(),
    now,
    random,
  });
  if (next !== undefined) failures.set(uid, next);
}
