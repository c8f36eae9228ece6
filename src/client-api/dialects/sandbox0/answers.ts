import * as z from "zod";
import type { Sandbox } from "../../../api/kinds/sandbox.ts";
import { annotations, labels } from "../../../api/names/labels.ts";
import { clientSandboxId } from "../../../api/pod/client-environment.ts";
import { expiryOf } from "../../../api/state/checkpoint.ts";
import { pauseFailure } from "../../../api/state/sandbox.ts";
import { defined } from "../../../base/defined.ts";
import type { Caller } from "../../keys/callers.ts";
import { type ClientState, sandboxIdOf } from "../../service/find-sandbox.ts";
import type { Snapshot } from "../../service/snapshots.ts";

/** The answers that Sandbox0's clients read. (Source: the models of the wheels sandbox0 0.9.7 and 0.10.4.) */

const Time = z.iso.datetime({ offset: true });
const Status = z.enum(["starting", "running", "paused", "terminating", "failed"]);
export type Status = z.infer<typeof Status>;

const runtime = {
  pod_name: z.string().describe("The name of the Sandbox object. Clients before 0.10 read it."),
  runtime_id: z.string().describe("The same, for clients since 0.10."),
};

export const Claimed = z
  .object({ sandbox_id: z.string(), status: Status, ...runtime, template: z.string(), cluster_id: z.null() })
  .meta({ id: "ClaimResponse" });

const summary = {
  id: z.string(),
  template_id: z.string(),
  status: Status,
  paused: z.boolean(),
  runtime_generation: z.int().describe("Grows with each pause and each resume."),
  cluster_id: z.null(),
  created_at: Time,
  updated_at: Time,
  expires_at: Time.nullable().describe("When it is paused."),
  hard_expires_at: Time.nullable().describe("When it is deleted."),
};
export const SandboxSummary = z.object(summary).meta({ id: "SandboxSummary" });

export const SandboxDetail = z
  .object({
    ...summary,
    ...runtime,
    team_id: z.string().describe("The namespace of the key."),
    user_id: z.string().describe("The API key that has created it, as `<namespace>/<name>`."),
    auto_resume: z.literal(false).describe("A pause keeps no processes, so traffic does not resume a sandbox."),
    claimed_at: Time,
  })
  .meta({ id: "Sandbox" });
export type SandboxDetail = z.infer<typeof SandboxDetail>;

export const SandboxStatus = z
  .object({
    sandbox_id: z.string(),
    template_id: z.string(),
    team_id: z.string(),
    user_id: z.string(),
    ...runtime,
    status: Status,
    claimed_at: Time,
    created_at: Time,
    expires_at: Time.nullable(),
    hard_expires_at: Time.nullable(),
  })
  .meta({ id: "SandboxStatus" });

export const Paused = z
  .object({ sandbox_id: z.string(), paused: z.boolean(), status: Status })
  .meta({ id: "PauseSandboxResponse" });
export const Resumed = z.object({ sandbox_id: z.string(), resumed: z.boolean() }).meta({ id: "ResumeSandboxResponse" });
export const Refreshed = z
  .object({ sandbox_id: z.string(), expires_at: Time.nullable(), hard_expires_at: Time.nullable() })
  .meta({ id: "RefreshResponse" });
export const Forked = z
  .object({ source_sandbox_id: z.string(), sandbox: SandboxDetail })
  .meta({ id: "ForkSandboxResponse" });
export const Restored = z
  .object({ sandbox_id: z.string(), snapshot_id: z.string(), status: Status })
  .meta({ id: "RestoreSandboxRootFSResponse" });

export const RootfsSnapshot = z
  .object({
    id: z.string(),
    sandbox_id: z.string().describe("Empty for a checkpoint that no client has created."),
    name: z.string().optional(),
    description: z.string().optional(),
    created_at: Time,
    expires_at: Time.optional(),
  })
  .meta({ id: "SandboxRootFSSnapshot" });

export function statusOf(sandbox: Sandbox, state: ClientState): Status {
  if (state === "killing") return "terminating";
  if (state === "ended") return "failed";
  // After a failed pause it still runs.
  if (state === "paused") return pauseFailure(sandbox) === undefined ? "paused" : "running";
  return state === "starting" ? "starting" : "running";
}

export function endsOf({ spec }: Sandbox): { expires_at: string | null; hard_expires_at: string | null } {
  const { pauseTime, shutdownTime, paused = false } = spec;
  const [soft, hard] = [pauseTime, shutdownTime].map((time) => (time === undefined ? undefined : new Date(time)));
  const isPausedFirst = soft !== undefined && !paused && (hard === undefined || soft < hard);
  return { expires_at: isPausedFirst ? soft.toISOString() : null, hard_expires_at: hard?.toISOString() ?? null };
}

export function sandboxSummary(sandbox: Sandbox, state: ClientState): z.infer<typeof SandboxSummary> {
  const { metadata, status: reported } = sandbox;
  const status = statusOf(sandbox, state);
  const changes = (reported?.conditions ?? []).map(({ lastTransitionTime }) => lastTransitionTime);
  const times = [metadata.creationTimestamp, ...changes].map((time) => Date.parse(time)).filter((time) => time > 0);
  return {
    id: sandboxIdOf(sandbox),
    template_id: templateIdOf(sandbox),
    status,
    paused: status === "paused",
    runtime_generation: metadata.generation ?? 0,
    cluster_id: null,
    created_at: claimedAt(sandbox),
    updated_at: new Date(Math.max(...times)).toISOString(),
    ...endsOf(sandbox),
  };
}

export function sandboxDetail(sandbox: Sandbox, state: ClientState, { namespace }: Caller): SandboxDetail {
  const { name, annotations: noted = {} } = sandbox.metadata;
  return {
    ...sandboxSummary(sandbox, state),
    pod_name: name,
    runtime_id: name,
    team_id: namespace,
    user_id: noted[annotations.owner] ?? "",
    auto_resume: false,
    claimed_at: claimedAt(sandbox),
  };
}

/** The name from which the sandbox was created; of a clone, that of its source. */
export function templateIdOf({ metadata, spec }: Sandbox): string {
  return (
    metadata.annotations?.[annotations.clientTemplate] ??
    metadata.labels?.[labels.sandboxTemplate] ??
    spec.templateRef?.name ??
    ""
  );
}

/** Users can write the annotation. */
export function claimedAt({ metadata }: Sandbox): string {
  const noted = Date.parse(metadata.annotations?.[annotations.claimTimestamp] ?? metadata.creationTimestamp);
  return new Date(Number.isNaN(noted) ? Date.parse(metadata.creationTimestamp) : noted).toISOString();
}

export function snapshotView({ id, checkpoint, createdAt, named }: Snapshot): z.infer<typeof RootfsSnapshot> {
  const { annotations: noted = {}, labels: own = {} } = checkpoint.metadata;
  return {
    id,
    sandbox_id: clientSandboxId(own[labels.sourceUid] ?? ""),
    created_at: createdAt,
    ...defined({
      name: named?.name ?? noted[annotations.displayName],
      description: noted[annotations.description],
      expires_at: expiryOf(checkpoint)?.toISOString(),
    }),
  };
}
