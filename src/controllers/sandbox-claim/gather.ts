import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import type { SandboxClaim, SandboxClaimSpec } from "../../api/kinds/sandbox-claim.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { annotations, labels } from "../../api/names/labels.ts";
import { volumesChoice } from "../../api/names/volumes-on-restore.ts";
import { ownVolumes } from "../../api/pod/cell-pod.ts";
import { volumeClaims } from "../../api/pod/volume-claims.ts";
import type { Problem } from "../../api/schema/problem.ts";
import { problemOf, sentenceOf } from "../../api/state/problem.ts";
import { parseDuration } from "../../base/duration.ts";
import { RametError, resultOrError } from "../../base/errors.ts";
import { keyOf } from "../../kube/object.ts";
import type { NamedManifest } from "../../operations/claim/cold-sandbox.ts";
import { type ClaimRequest, validateClaimRequest } from "../../operations/claim/request.ts";
import { appliedEgress, desiredEgress, egressTemplate } from "../origin/egress.ts";
import { fitsReference, hasCapturedVolumes, originOfText } from "../origin/origin.ts";
import { resolveTemplate } from "../origin/resolve-template.ts";
import { inPlaceProblem, volumesOf } from "../volumes/restored-volumes.ts";
import { type ClaimDependencies, type ClaimEnd, type ClaimState, Pursuit, ordinalLock } from "./state.ts";
import { claimRequest, progressOf } from "./status.ts";

/** Reads the state for a plan from the cache. Asks the API server before it reports a set as missing. */
export async function gather(claim: SandboxClaim, dependencies: ClaimDependencies): Promise<ClaimState> {
  const problem = await endEarly(claim, dependencies);
  const pursuit = await pursuitOf(claim, dependencies);
  // No await from here to the plan: a sandbox that becomes ready meanwhile would be missed.
  const attempts = readAttempts(claim, pursuit, dependencies);
  const now = dependencies.clock.now();
  const bearers = [...attempts.sandboxes, ...shownSandboxes(claim, dependencies)];
  const waitReadyMilliseconds = parseDuration(claim.spec.waitReadyTimeout);
  const members = bearers
    .filter(({ metadata }) => metadata.labels?.[labels.reservedFailedSandbox] !== "true")
    .map((sandbox) => ({
      sandbox,
      progress: progressOf(sandbox, {
        hasEgress: hasEgress(sandbox, dependencies),
        waitReadyMilliseconds,
        seenAt: pursuit.seenAt,
        now,
      }),
    }));
  const delivered = new Set(claim.status?.ramet?.sandboxes);
  pursuit.noteFailed(
    members
      .filter(({ sandbox, progress }) => progress.is === "failed" && !delivered.has(sandbox.metadata.name))
      .map(({ sandbox }) => sandbox.metadata.uid),
  );
  const { claimStartTime } = claim.status ?? {};
  return {
    claim,
    problem,
    members,
    underWay: attempts.underWay,
    used: usedOrdinals(claim, bearers),
    error: attempts.error,
    pauseMilliseconds: pursuit.pauseMilliseconds,
    stock: problem === undefined && claim.status?.phase !== "Completed" ? stockOf(claim, dependencies) : 0,
    startedAt: claimStartTime === undefined ? pursuit.since : new Date(claimStartTime),
    seenAt: pursuit.seenAt,
    slowInMilliseconds: dependencies.slowStart.millisecondsLeft(claim.metadata.uid),
    now,
  };
}

function hasEgress(sandbox: Sandbox, { cache, informers, podOptions }: ClaimDependencies): boolean {
  const pod = cache.pod(keyOf(sandbox.metadata));
  const namespace = informers.namespaces.store.get(sandbox.metadata.namespace)?.metadata;
  const template = egressTemplate(resolveTemplate(sandbox, cache), pod);
  const { digest } = desiredEgress({ namespace, template, sandbox }, podOptions);
  return appliedEgress(sandbox, pod) === digest;
}

/** The ready sandboxes of the set that this claim can take. */
function stockOf(claim: SandboxClaim, dependencies: ClaimDependencies): number {
  const { namespace, set, fits, startsFrom } = restorableRequest(claimRequest(claim), dependencies);
  return startsFrom === undefined ? dependencies.claimParts.stock.count(`${namespace}/${set}`, fits) : 0;
}

/** How a claim restores its checkpoint: in place in a sandbox of the set that fits, or in a new Pod, which can get volumes. */
export function restorableRequest(
  request: ReturnType<typeof claimRequest>,
  { cache, nodeCpus }: Pick<ClaimDependencies, "cache" | "nodeCpus">,
): ReturnType<typeof claimRequest> & Pick<ClaimRequest, "fits" | "startsFrom"> {
  const { restoreFrom, namespace, ...others } = request;
  if (restoreFrom === undefined) return request;
  if (hasCapturedVolumes(namespace, restoreFrom, cache)) return { ...others, namespace, startsFrom: restoreFrom };
  return { ...request, fits: fitsReference(namespace, restoreFrom, { cache, nodeCpus }) };
}

async function pursuitOf(claim: SandboxClaim, dependencies: ClaimDependencies): Promise<Pursuit> {
  const { pursuits, clock, random } = dependencies;
  const known = pursuits.get(claim.metadata.uid);
  if (known !== undefined) return known;
  const pursuit = new Pursuit(clock, random, await startOf(claim, dependencies));
  pursuits.set(claim.metadata.uid, pursuit);
  return pursuit;
}

/**
 * When a claim without a status started. One that was created while no controller led started before this process saw it; the clock
 * of the API server, which wrote that time, may be another than this process's.
 */
async function startOf({ metadata, status }: SandboxClaim, { clock, serverClock }: ClaimDependencies): Promise<Date> {
  const seenAt = clock.now();
  const createdAt = Date.parse(metadata.creationTimestamp) + 1_000;
  const isNew = Math.abs(seenAt.getTime() - createdAt) < 1_500;
  if (isNew || status?.claimStartTime !== undefined) return seenAt;
  const aheadMilliseconds = await serverClock();
  if (aheadMilliseconds === undefined) return seenAt;
  return new Date(Math.min(seenAt.getTime(), createdAt - aheadMilliseconds));
}

export function attemptId(claimUid: string, ordinal: number): string {
  return `${claimUid}/${ordinal}`;
}

interface OwnAttempts {
  sandboxes: Sandbox[];
  underWay: number[];
  error: RametError | undefined;
}

/** The results of this process's attempts that the cache does not show yet. */
function readAttempts(
  { metadata: { uid } }: SandboxClaim,
  pursuit: Pursuit,
  { attempts, informers }: ClaimDependencies,
): OwnAttempts {
  const found: OwnAttempts = { sandboxes: [], underWay: [], error: undefined };
  const isShown = ({ metadata }: Sandbox): boolean =>
    informers.sandboxes.store.byUid(metadata.uid)?.metadata.annotations?.[annotations.owner] === uid;
  for (const ordinal of pursuit.ordinals) {
    const id = attemptId(uid, ordinal);
    const attempt = attempts.get(id);
    if (attempt?.state === "running") {
      found.underWay.push(ordinal);
    } else if (attempt?.state === "done" && !isShown(attempt.value.sandbox)) {
      found.sandboxes.push(attempt.value.sandbox);
    } else {
      if (attempt?.state === "failed" && !isExpected(attempt.error)) found.error = attempt.error;
      attempts.forget(id);
      pursuit.ordinals.delete(ordinal);
    }
  }
  return found;
}

/** The claim timed out or ended. */
function isExpected({ code }: RametError): boolean {
  return code === "Timeout" || code === "Canceled";
}

function shownSandboxes(claim: SandboxClaim, { sandboxesOfClaim, sandboxWrites }: ClaimDependencies): Sandbox[] {
  return sandboxesOfClaim(keyOf(claim.metadata))
    .map((sandbox) => sandboxWrites.latest(sandbox))
    .filter(({ metadata }) => metadata.annotations?.[annotations.owner] === claim.metadata.uid);
}

function usedOrdinals({ metadata: { uid } }: SandboxClaim, bearers: readonly Sandbox[]): Set<number> {
  const locks = new Set(bearers.map(({ metadata }) => metadata.annotations?.[annotations.lock]));
  const used = new Set<number>();
  for (let ordinal = 0; used.size < locks.size && ordinal < farthestOrdinal; ordinal++) {
    if (locks.has(ordinalLock(uid, ordinal))) used.add(ordinal);
  }
  return used;
}

/** Bounds the search for a lock that was not written by this controller. */
const farthestOrdinal = 100_000;

async function endEarly(claim: SandboxClaim, dependencies: ClaimDependencies): Promise<ClaimState["problem"]> {
  const { cache, informers } = dependencies;
  if (claim.status?.phase === "Completed") return undefined;
  const invalid = invalidPart(claim);
  if (invalid !== undefined) return endOf(invalid);
  const { namespace } = claim.metadata;
  const set = { namespace, name: claim.spec.templateName };
  // A set and a claim may be applied together, before this cache shows the set.
  if (cache.set(keyOf(set)) !== undefined || (await informers.sets.resource.find(set)) !== undefined)
    return originProblem(claim, dependencies);
  const why: Problem = {
    code: "NotFound",
    cause: `the SandboxSet ${set.name} does not exist in the namespace ${namespace}`,
    hint: "Create it, then create a new claim",
    object: { kind: "SandboxSet", name: set.name },
  };
  return { reason: "SandboxSetNotFound", why, message: sentenceOf(why) };
}

function endOf(error: RametError): ClaimEnd {
  return { reason: error.code, why: problemOf(error), message: error.describe() };
}

/** Checked before the claim: a claimed sandbox that cannot be restored in place would be lost to its set. */
async function originProblem(
  claim: SandboxClaim,
  { cache, informers, backends, engines, claimParts }: ClaimDependencies,
): Promise<ClaimState["problem"]> {
  const { namespace, set, restoreFrom } = claimRequest(claim);
  if (restoreFrom === undefined) return undefined;
  const { origin, checkpoint } = await originOfText(namespace, () => restoreFrom, {
    cache,
    informers,
    backends,
    engines,
  });
  const model = await claimParts.model({ namespace, name: set });
  const template = model && resolveTemplate(model, cache);
  const verdict = origin(template === undefined || "problem" in template ? undefined : template.template);
  const error = verdict.kind === "checkpoint" ? volumesProblem(claim, { checkpoint, model, template }) : undefined;
  const problem = verdict.kind === "impossible" ? verdict.error : error;
  return problem && endOf(problem);
}

/** A restore in place keeps the volumes of the sandbox. The model's claims have other names than the source's, as each sandbox's. */
function volumesProblem(
  claim: SandboxClaim,
  {
    checkpoint,
    model,
    template,
  }: {
    checkpoint: Checkpoint | undefined;
    model: NamedManifest | undefined;
    template: ReturnType<typeof resolveTemplate> | undefined;
  },
): RametError | undefined {
  if (model === undefined || template === undefined || "problem" in template) return undefined;
  const { name } = model.metadata;
  const own = volumeClaims(ownVolumes(name, template), name);
  const volumes = volumesOf(checkpoint);
  // A sandbox with a new Pod, which this claim then gets, checks its volumes itself.
  if (volumes.captured.length > 0) return undefined;
  return resultOrError(() => {
    const choice = volumesChoice({ metadata: { annotations: claim.spec.annotations } }, template.template);
    return inPlaceProblem(volumes, choice, own);
  });
}

function invalidPart(claim: SandboxClaim): RametError | undefined {
  return (
    unsupportedRequest(claim.spec) ??
    resultOrError(() => {
      validateClaimRequest(claimRequest(claim));
      return undefined;
    })
  );
}

/**
 * Reports fields that OpenKruise Agents applies to a running sandbox and Ramet cannot: an error that names each such field and
 * an alternative. A field that requests nothing is ignored.
 */
export function unsupportedRequest({
  inplaceUpdate,
  dynamicVolumesMount = [],
}: SandboxClaimSpec): RametError | undefined {
  const { image, resources } = inplaceUpdate ?? {};
  const quantities = { ...resources?.requests, ...resources?.limits };
  const mountPaths = dynamicVolumesMount.map(({ mountPath }) => mountPath);
  const refusals = [
    image !== undefined && {
      why: "spec.inplaceUpdate.image is not supported: the image is the root file system of a sandbox, which runs before it is claimed",
      instead: `Create a SandboxSet with the image ${image}, and claim from it`,
    },
    Object.keys(quantities).length > 0 && {
      why: "spec.inplaceUpdate.resources is not supported: the resources of a sandbox are fixed when it starts",
      instead: "Set the resources in the template of a SandboxSet, and claim from it",
    },
    mountPaths.length > 0 && {
      why: "spec.dynamicVolumesMount is not supported: the mounts of a sandbox are fixed when it starts, and its checkpoints need the same ones",
      instead: `Name the volumes in volumes[] and volumeMounts[] of a SandboxSet's template, at ${mountPaths.join(", ")}, and claim from it`,
    },
  ].filter((refusal) => refusal !== false);
  if (refusals.length === 0) return undefined;
  return new RametError("InvalidArgument", refusals.map(({ why }) => why).join("; "), {
    hint: refusals.map(({ instead }) => instead).join(". "),
  });
}
