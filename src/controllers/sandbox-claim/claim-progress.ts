import type { SandboxClaim } from "../../api/kinds/sandbox-claim.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { annotations, restoreFrom, restoreFromAnnotations } from "../../api/names/labels.ts";
import { missingPart, whyNeverServing } from "../../api/state/sandbox.ts";
import { defined } from "../../base/defined.ts";
import type { ClaimRequest } from "../../operations/claim/request.ts";
import type { Problem } from "../../api/schema/problem.ts";
import { within } from "../../api/state/problem.ts";
import { describeReport, reportedProblem } from "../../kube/reported-state.ts";
import { findCondition } from "../../kube/conditions.ts";
import type { MemberProgress } from "./state.ts";

/**
 * Whether a claimed sandbox is ready for use. A slow one is waited for: it would be no faster if it were created again.
 * @param hasEgress whether its cell has the egress policy of its levels, which the claim's annotations are part of
 * @param seenAt when this process first saw the claim: the time without a controller does not count
 */
export function progressOf(
  sandbox: Sandbox,
  { hasEgress, waitReadyMilliseconds, seenAt, now }: ProgressOptions,
): MemberProgress {
  const { metadata, status } = sandbox;
  const endedBecause = whyNeverServing(sandbox);
  if (endedBecause !== undefined) return { is: "failed", why: endedBecause };
  const missing = missingPart(sandbox) ?? (hasEgress ? undefined : "its egress rules are not in effect yet");
  if (missing === undefined) return { is: "ready" };
  const claimedAt = Date.parse(metadata.annotations?.[annotations.claimTimestamp] ?? metadata.creationTimestamp);
  const slowFrom = new Date(Math.max(claimedAt, seenAt.getTime()) + waitReadyMilliseconds);
  const report = reportOf(status);
  const why = report === undefined ? { code: "SandboxNotReady", cause: missing } : within(report, missing);
  if (slowFrom > now) return { is: "waiting", slowFrom, why };
  const cause = `after ${waitReadyMilliseconds / 1000} s (spec.waitReadyTimeout) ${why.cause}`;
  return { is: "waiting", slowFrom, why: { ...why, cause } };
}

interface ProgressOptions {
  hasEgress: boolean;
  waitReadyMilliseconds: number;
  seenAt: Date;
  now: Date;
}

function reportOf(status: Sandbox["status"]): Problem | undefined {
  const message = describeReport({ status });
  const code = findCondition(status?.conditions, "Ready")?.reason ?? "SandboxNotReady";
  return reportedProblem(status) ?? (message === undefined ? undefined : { code, cause: message });
}

/**
 * The request for each sandbox of a claim. An annotation `restore-from` of the claim is restored in place, as the sandbox is
 * running already.
 * @throws RametError `InvalidArgument` when two of these annotations differ
 */
export function claimRequest({ metadata, spec }: SandboxClaim): Omit<ClaimRequest, "lock" | "timeoutMilliseconds"> {
  const { labels: own, annotations: notes = {}, envVars, shutdownTime } = spec;
  const from = restoreFrom({ metadata: { annotations: notes }, spec: {} });
  const annotations = Object.fromEntries(Object.entries(notes).filter(([key]) => !isRestoreFrom(key)));
  return {
    namespace: metadata.namespace,
    set: spec.templateName,
    owner: metadata.uid,
    claimName: metadata.name,
    createOnNoStock: spec.createOnNoStock,
    annotations,
    ...defined({ labels: own }),
    ...(envVars && !spec.skipInitRuntime && { environment: envVars }),
    ...defined({ restoreFrom: from, shutdownTime }),
  };
}

function isRestoreFrom(key: string): boolean {
  return (restoreFromAnnotations as readonly string[]).includes(key);
}
