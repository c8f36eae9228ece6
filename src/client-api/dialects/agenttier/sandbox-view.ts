import { claimName } from "../../../api/pod/volume-claims.ts";
import type { Sandbox } from "../../../api/kinds/sandbox.ts";
import { annotations, labels, restoreFrom } from "../../../api/names/labels.ts";
import { describeProblem } from "../../../api/state/problem.ts";
import { missingPart, whyNeverServing } from "../../../api/state/sandbox.ts";
import { describeReport } from "../../../kube/reported-state.ts";
import { type ClientState } from "../../service/sandbox-state.ts";
import type { SandboxSummary, Status } from "./answers.ts";

/** What AgentTier's clients get in lists, and of one sandbox. */
export function sandboxSummary(sandbox: Sandbox, state: ClientState): SandboxSummary {
  const { name, namespace, creationTimestamp, annotations: noted = {} } = sandbox.metadata;
  const status = statusOf(sandbox, state);
  const owner = noted[annotations.owner];
  const end = whyNeverServing(sandbox);
  const message = end === undefined ? describeReport(sandbox) : describeProblem(end);
  return {
    sandboxId: name,
    name,
    namespace,
    status,
    mode: noted[annotations.clientAgent] === undefined ? "code" : "agent",
    ...(status === "Running" && { podName: name }),
    ...claimIn(sandbox),
    templateRef: templateOf(sandbox),
    ...lineageOf(sandbox),
    createdAt: creationTimestamp,
    ...(owner !== undefined && { createdBy: { displayName: owner } }),
    ...(message !== undefined && { message }),
  };
}

function claimIn({ metadata: { name }, spec }: Sandbox): Pick<SandboxSummary, "pvcName"> {
  const [claim] = spec.volumeClaimTemplates ?? [];
  const volume = (claim?.["metadata"] as { name?: unknown } | null | undefined)?.name;
  return typeof volume === "string" ? { pvcName: claimName(volume, name) } : {};
}

function lineageOf(sandbox: Sandbox): Pick<SandboxSummary, "clonedFrom" | "cloneFromSnapshot"> {
  const clonedFrom = sandbox.metadata.annotations?.[annotations.clonedFrom];
  const snapshot = snapshotOf(sandbox);
  return {
    ...(clonedFrom !== undefined && { clonedFrom }),
    ...(snapshot !== undefined && { cloneFromSnapshot: snapshot }),
  };
}

/** The phase of AgentTier for a state. A sandbox is `Running` when it serves. */
export function statusOf(sandbox: Sandbox, state: ClientState): Status {
  if (state === "killing") return "Deleting";
  if (state === "ended") return "Error";
  if (state === "paused") return "Stopped";
  if (state === "pausing") return "Running";
  if (whyNeverServing(sandbox) !== undefined) return "Error";
  return state !== "starting" && missingPart(sandbox) === undefined ? "Running" : "Creating";
}

/** The name from which the sandbox was created; of a clone, that of its source. */
export function templateOf({ metadata, spec }: Sandbox): string {
  return (
    metadata.annotations?.[annotations.clientTemplate] ??
    metadata.labels?.[labels.sandboxTemplate] ??
    spec.templateRef?.name ??
    ""
  );
}

/** Users can write both annotations, and then none counts. */
function snapshotOf(sandbox: Sandbox): string | undefined {
  try {
    return restoreFrom(sandbox) ?? sandbox.status?.ramet?.restoredFrom;
  } catch {
    return undefined;
  }
}
