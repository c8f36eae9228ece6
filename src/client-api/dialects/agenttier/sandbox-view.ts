import * as z from "zod";
import { claimName } from "../../../api/pod/volume-claims.ts";
import type { Sandbox } from "../../../api/kinds/sandbox.ts";
import { annotations, labels, restoreFrom } from "../../../api/names/labels.ts";
import { describeProblem } from "../../../api/state/problem.ts";
import { missingPart, whyNeverServing } from "../../../api/state/sandbox.ts";
import { resultOr } from "../../../base/errors.ts";
import { defined } from "../../../base/defined.ts";
import { describeReport } from "../../../kube/conditions.ts";
import type { ClientState } from "../../service/find-sandbox.ts";

/** Returns a sandbox as AgentTier's clients get it, in lists and alone. */
export function sandboxSummary(sandbox: Sandbox, state: ClientState): SandboxSummary {
  const { name, namespace, creationTimestamp, annotations: noted = {} } = sandbox.metadata;
  const status = statusOf(sandbox, state);
  const owner = noted[annotations.owner];
  const clonedFrom = noted[annotations.clonedFrom];
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
    ...defined({ clonedFrom, cloneFromSnapshot: snapshotOf(sandbox) }),
    createdAt: creationTimestamp,
    ...(owner !== undefined && { createdBy: { displayName: owner } }),
    ...defined({ message }),
  };
}

function claimIn({ metadata: { name }, spec }: Sandbox): Pick<SandboxSummary, "pvcName"> {
  const [claim] = spec.volumeClaimTemplates ?? [];
  const volume = (claim?.["metadata"] as { name?: unknown } | null | undefined)?.name;
  return typeof volume === "string" ? { pvcName: claimName(volume, name) } : {};
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
  return resultOr(() => restoreFrom(sandbox) ?? sandbox.status?.ramet?.restoredFrom, undefined);
}

/** The answers that AgentTier's clients read. (Source: the models of the wheel agenttier 0.8.1.) */

const Status = z.enum(["Creating", "Running", "Stopped", "Error", "Deleting"]);
type Status = z.infer<typeof Status>;

export const SandboxSummary = z
  .object({
    sandboxId: z.string().describe("The name."),
    name: z.string(),
    namespace: z.string(),
    status: Status,
    mode: z.enum(["code", "agent"]).describe("`agent` after the sandbox was configured."),
    podName: z.string().optional(),
    pvcName: z.string().optional().describe("The first PersistentVolumeClaim of the sandbox."),
    templateRef: z.string().describe("The name from which it was created."),
    clonedFrom: z.string().optional().describe("The name of the sandbox of which it is a clone."),
    cloneFromSnapshot: z.string().optional().describe("The checkpoint or named snapshot that it was restored from."),
    createdAt: z.iso.datetime({ offset: true }),
    createdBy: z.object({ displayName: z.string() }).optional().describe("The API key, as `<namespace>/<name>`."),
    message: z.string().optional(),
  })
  .meta({ id: "Sandbox" });
export type SandboxSummary = z.infer<typeof SandboxSummary>;

export const CreatedSandbox = z
  .object({
    sandboxId: z.string(),
    name: z.string(),
    namespace: z.string(),
    status: Status,
    templateRef: z.string(),
  })
  .meta({ id: "CreatedSandbox" });

export const StartedClone = z
  .object({
    name: z.string(),
    namespace: z.string(),
    snapshot: z.string().describe("The name of the Checkpoint."),
    clonedFrom: z.string(),
    phase: z.literal("Pending"),
    message: z.string(),
  })
  .meta({ id: "StartedClone" });

export const Ran = z
  .object({ stdout: z.string(), stderr: z.string(), exitCode: z.int() })
  .meta({ id: "CommandResult" });
