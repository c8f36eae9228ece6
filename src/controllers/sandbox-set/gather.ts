import { type FoundField, findIgnored, findIgnoredInTemplate, ofTemplate } from "../../api/fields/find-ignored.ts";
import { strategyOfTemplate } from "../../api/fields/ignored-fields.ts";
import type { SandboxSet } from "../../api/kinds/sandbox-set.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { setRevision } from "../../api/set/set-revision.ts";
import { otherCaptures, resolveOrigin } from "../../api/snapshot/snapshot-reference.ts";
import { problemIn, within } from "../../api/state/problem.ts";
import { RametError } from "../../base/errors.ts";
import { findCondition } from "../../kube/conditions.ts";
import { controllerOf, keyOf } from "../../kube/object.ts";
import type { StatusWriter } from "../../kube/status-writer.ts";
import type { CellParts, ClusterParts, ProcessParts } from "../cluster/controller-parts.ts";
import { engineOfCheckpoint } from "../images/engines.ts";
import { templateOriginReferences } from "../origin/origin.ts";
import type { Budgets } from "./budgets.ts";
import type { StatusPace } from "./conditions.ts";
import { type Failures, backoffOf, nextFailures } from "./failures.ts";
import type { SetMetrics } from "./metrics.ts";
import type { NewSandboxes } from "./new-sandboxes.ts";
import { type Member, type SetState, boundsOf, memberOf } from "./state.ts";

/** Reads the state for a plan from the cache. Asks the API server for sandboxes that the cache should show by now. */
export async function gather(set: SandboxSet, dependencies: SetDependencies): Promise<SetState> {
  const { cache, newSandboxes, clock } = dependencies;
  const { uid } = set.metadata;
  await findOverdue(set, dependencies);
  const now = clock.now();
  const { revision, sameContent } = revisionOf(set, dependencies);
  const found = membersOf(set, revision, dependencies);
  const { members } = found;
  const hash = "problem" in revision ? undefined : revision.hash;
  return {
    set,
    revision,
    sameContent,
    bounds: resultOrProblem(() => boundsOf(set.spec)),
    ...found,
    unseen: newSandboxes.of(uid),
    templates: cache.templatesOfSet(keyOf(set.metadata)).filter((template) => controllerOf(template)?.uid === uid),
    backoff: updateFailures(uid, hash, members, dependencies),
    ignored: ignoredFieldsOf(set, dependencies),
    now,
  };
}

/** Also those of the SandboxTemplate that the set names, whose pause strategy never applies. */
function ignoredFieldsOf({ metadata, spec }: SandboxSet, { cache }: SetDependencies): FoundField[] {
  const own = findIgnored("SandboxSet", { metadata, spec });
  const named = spec.templateRef && cache.template(`${metadata.namespace}/${spec.templateRef.name}`);
  if (named === undefined) return own;
  const { pauseStrategy: _, ...rest } = named.spec;
  const { name } = named.metadata;
  const isReplaced = named.spec.pauseStrategy?.type !== undefined && spec.pauseStrategy === undefined;
  const strategy = isReplaced ? [ofTemplate(name, { path: "spec.pauseStrategy", ...strategyOfTemplate })] : [];
  return [...own, ...strategy, ...findIgnoredInTemplate({ name, spec: rest }, spec)];
}

function revisionOf(set: SandboxSet, { cache }: SetDependencies): Pick<SetState, "revision" | "sameContent"> {
  const { metadata, spec } = set;
  const { namespace } = metadata;
  const named = spec.templateRef && cache.template(`${namespace}/${spec.templateRef.name}`);
  const captures: string[] = [];
  try {
    const revision = setRevision(set, named, (origin) => {
      captures.push(...otherCaptures(namespace, origin, cache));
      return resolveOrigin(namespace, origin, cache);
    });
    return { revision, sameContent: new Set(captures.map((id) => setRevision(set, named, () => id).hash)) };
  } catch (error) {
    return { revision: { problem: RametError.from(error) }, sameContent: new Set() };
  }
}

function membersOf(
  set: SandboxSet,
  revision: SetState["revision"],
  { cache, sandboxWrites, newSandboxes, engines, departures }: SetDependencies,
): Pick<SetState, "members" | "departing" | "deletionsUnseen"> {
  const isBound = isBoundToEngine(set, revision, cache);
  const hasOldEngine = ({ status }: Sandbox): boolean =>
    !isBound && engines.stateOf({ engineId: status?.ramet?.engine }) === "earlier";
  const leaves = ({ metadata }: Sandbox): boolean => departures.leaves(cache.pod(keyOf(metadata))).leaving;
  const needsReplacement = (sandbox: Sandbox): boolean => hasOldEngine(sandbox) || leaves(sandbox);
  const owned = cache
    .sandboxesOfSet(keyOf(set.metadata))
    .map((sandbox) => sandboxWrites.latest(sandbox))
    // A claim removes the owner reference, and the cache may not show a claim of this process yet.
    .filter((sandbox) => controllerOf(sandbox)?.uid === set.metadata.uid);
  const isUnseen = ({ metadata }: Sandbox): boolean => newSandboxes.isLeaving(metadata.uid);
  const members = owned.map((sandbox) => memberOf(sandbox, isUnseen(sandbox), needsReplacement(sandbox)));
  return {
    members,
    departing: members.flatMap(({ state, sandbox }) => (state === "available" && leaves(sandbox) ? [sandbox] : [])),
    deletionsUnseen: owned.some(isUnseen),
  };
}

/** A set that is warmed from memory has the engine of that memory. A checkpoint that is not known may have memory. */
function isBoundToEngine(
  { metadata: { namespace } }: SandboxSet,
  revision: SetState["revision"],
  cache: SetDependencies["cache"],
): boolean {
  if ("problem" in revision) return true;
  return templateOriginReferences(revision.spec.template).some((id) => {
    const checkpoint = cache.checkpointById(namespace, id);
    return checkpoint === undefined || engineOfCheckpoint(checkpoint) !== undefined;
  });
}

function updateFailures(
  setUid: string,
  revisionHash: string | undefined,
  members: Member[],
  { failures, clock, random }: SetDependencies,
): SetState["backoff"] {
  const monotonicMilliseconds = clock.monotonicMilliseconds();
  if (revisionHash === undefined) return backoffOf(undefined, monotonicMilliseconds);
  const ofRevision = members.filter((member) => member.revisionHash === revisionHash);
  const ended = ofRevision
    .filter((member) => member.state === "dead")
    .map(({ sandbox: { metadata, status } }) => ({
      uid: metadata.uid,
      message: `${metadata.name}: ${status?.message ?? `it is ${status?.phase ?? "deleted"}`}`,
      problem: {
        ...within(
          problemIn(status) ?? {
            code: "StartFailing",
            cause: status?.message ?? `it is ${status?.phase ?? "deleted"}`,
          },
          metadata.name,
        ),
        object: { kind: "Sandbox", name: metadata.name },
      },
      isConclusive: findCondition(status?.conditions, "Ready")?.reason === "ImageNotFound",
    }));
  const next = nextFailures(failures.get(setUid), {
    revisionHash,
    ended,
    isUnproven: (lastAt) => isUnproven(ofRevision, lastAt),
    now: clock.now(),
    monotonicMilliseconds,
    random,
  });
  if (next === undefined) failures.delete(setUid);
  else failures.set(setUid, next);
  return backoffOf(next, monotonicMilliseconds);
}

function isUnproven(members: Member[], lastAt: Date): boolean {
  // Creation timestamps have a resolution of seconds.
  const since = Math.floor(lastAt.getTime() / 1000) * 1000;
  const isProof = ({ state, sandbox }: Member): boolean =>
    state === "available" && Date.parse(sandbox.metadata.creationTimestamp) >= since;
  return members.some(({ state }) => state === "creating") && !members.some(isProof);
}

/** Looks up created sandboxes that the informer does not show: it lags, or they were deleted or never created. */
async function findOverdue(
  set: SandboxSet,
  { newSandboxes, informers: { sandboxes } }: SetDependencies,
): Promise<void> {
  const { uid } = set.metadata;
  await Promise.all(
    newSandboxes.overdue(uid).map(async (made) => {
      const found = await sandboxes.resource.find(made);
      const isOurs = found !== undefined && controllerOf(found)?.uid === uid;
      if (!isOurs) newSandboxes.removed(uid, made.name);
      else newSandboxes.created(uid, found);
    }),
  );
}

function resultOrProblem<T>(decide: () => T): T | { problem: RametError } {
  try {
    return decide();
  } catch (error) {
    return { problem: RametError.from(error) };
  }
}

export interface SetDependencies
  extends Omit<ClusterParts, "client">, Omit<ProcessParts, "metrics">, Pick<CellParts, "engines" | "departures"> {
  statuses: StatusWriter<SandboxSet>;
  statusPace: StatusPace;
  budgets: Budgets;
  newSandboxes: NewSandboxes;
  /** By set UID. */
  failures: Map<string, Failures>;
  /** `namespace/name` of SandboxTemplates that this process wrote and its cache may not show yet. */
  newTemplates: Set<string>;
  metrics: SetMetrics | undefined;
}
