import type { SandboxClaim } from "../../api/kinds/sandbox-claim.ts";
import { labels } from "../../api/names/labels.ts";
import { RametError } from "../../base/errors.ts";
import { claimSandbox } from "../../operations/claim/claim-sandbox.ts";
import { keyOf } from "../../kube/object.ts";
import { claimRequest } from "./status.ts";
import { attemptId, restorableRequest } from "./gather.ts";
import { type ClaimAction, type ClaimDependencies, ordinalLock } from "./state.ts";

/** Carries out one action. Actions can be repeated: an existing or deleted object is not an error. */
export async function applyAction(
  claim: SandboxClaim,
  action: ClaimAction,
  dependencies: ClaimDependencies,
): Promise<unknown> {
  const { sandboxes, claims } = dependencies.informers;
  const { uid } = claim.metadata;
  switch (action.do) {
    case "startClaim":
      startClaim(claim, action, dependencies);
      return;
    case "stopClaims":
      dependencies.pursuits.get(uid)?.abort.abort();
      return;
    case "deleteSandbox":
      return sandboxes.resource.delete(action.sandbox.metadata, { uid: action.sandbox.metadata.uid });
    case "keepFailed": {
      const { uid: sandboxUid } = action.sandbox.metadata;
      const mark = { metadata: { uid: sandboxUid, labels: { [labels.reservedFailedSandbox]: "true" } } };
      return dependencies.sandboxWrites.write(action.sandbox, () =>
        sandboxes.resource.mergePatch(action.sandbox.metadata, mark),
      );
    }
    case "deleteClaim":
      return claims.resource.delete(claim.metadata, { uid });
  }
}

/** Claims in the background, so that claims that wait for a ready sandbox do not block the reconciles of others. */
function startClaim(
  claim: SandboxClaim,
  { ordinal, deadline, onlyStock }: Extract<ClaimAction, { do: "startClaim" }>,
  { claimParts, attempts, pursuits, cache, nodeCpus, seal, clock, enqueue }: ClaimDependencies,
): void {
  const { uid } = claim.metadata;
  const pursuit = pursuits.get(uid);
  if (pursuit === undefined) throw new RametError("Internal", `The claim ${uid} has no record in this process`);
  const { signal } = pursuit.abort;
  const call = () => {
    const timeoutMilliseconds = Math.max(0, deadline.getTime() - clock.now().getTime());
    const own = restorableRequest(claimRequest(claim), { cache, nodeCpus });
    const request = { ...own, seal, lock: ordinalLock(uid, ordinal), timeoutMilliseconds, onlyFitting: onlyStock };
    return claimSandbox(request, claimParts, signal);
  };
  pursuit.ordinals.add(ordinal);
  attempts.start(attemptId(uid, ordinal), call, () => {
    enqueue(keyOf(claim.metadata));
  });
}
