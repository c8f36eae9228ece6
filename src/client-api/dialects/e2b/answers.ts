import * as z from "zod";
import { defined } from "../../../base/defined.ts";
import type { ErrorCode } from "../../../base/error-codes.ts";
import { statusOf } from "../../../base/http.ts";
import { messageWithHint, requestError } from "../../routes/serve-routes.ts";

/**
 * The answers that E2B's SDKs read. (Source: the OpenAPI document of e2b-dev/E2B at b8029973.) Python's clients fail without the
 * fields that are not optional.
 */

/** The answer to clients that create or connect to a sandbox. */
export const SandboxAccess = z
  .object({
    templateID: z.string(),
    sandboxID: z.string(),
    clientID: z.string(),
    envdVersion: z.string(),
    envdAccessToken: z.string().describe("Opens the API of the sandbox on port 49983."),
    trafficAccessToken: z.string().optional().describe("Opens ports that are not public."),
    domain: z.string().nullable().describe("The domain below which the sandbox has host names."),
  })
  .meta({ id: "Sandbox" });
export type SandboxAccess = z.infer<typeof SandboxAccess>;

const listed = {
  templateID: z.string(),
  sandboxID: z.string(),
  clientID: z.string(),
  startedAt: z.iso.datetime({ offset: true }),
  endAt: z.iso.datetime({ offset: true }).describe("Of a paused sandbox: the time of the pause."),
  cpuCount: z.int(),
  memoryMB: z.int(),
  diskSizeMB: z.int(),
  state: z.enum(["running", "paused"]),
  envdVersion: z.string(),
  metadata: z.record(z.string(), z.string()),
  name: z.string().describe("The name of the Sandbox object. E2B has no such field."),
  namespace: z.string().describe("The namespace of the Sandbox object. E2B has no such field."),
};
export const ListedSandbox = z.object(listed).meta({ id: "ListedSandbox" });
export type ListedSandbox = z.infer<typeof ListedSandbox>;

export const SandboxDetail = z
  .object({
    ...listed,
    allowInternetAccess: z.boolean().nullable().optional(),
    network: z
      .object({
        allowOut: z.array(z.string()).optional(),
        denyOut: z.array(z.string()).optional(),
        rules: z
          .record(z.string(), z.array(z.object({})))
          .optional()
          .describe("The domains. The headers are not returned."),
        egressProxy: z.object({ address: z.string() }).optional().describe("Without its credentials."),
        allowPublicTraffic: z.boolean(),
        maskRequestHost: z.string().optional(),
        httpsPorts: z.array(z.int()).optional(),
      })
      .meta({ id: "SandboxNetworkConfig" }),
    lifecycle: z.object({ onTimeout: z.enum(["kill", "pause"]), autoResume: z.boolean() }),
    domain: z.string().nullable(),
    pauseMode: z.enum(["full", "filesystem"]).optional().describe("What a paused sandbox has kept."),
    envdAccessToken: z.string().optional().describe("Only for callers that may enter the sandbox."),
  })
  .meta({ id: "SandboxDetail" });

export const ErrorBody = z
  .object({
    code: z.int().describe("The status of the answer."),
    message: z.string(),
    error_code: z.string().optional(),
  })
  .meta({ id: "Error" });
export type ErrorBody = z.infer<typeof ErrorBody>;

export const ForkResult = z
  .object({ sandbox: SandboxAccess.optional(), error: ErrorBody.optional() })
  .meta({ id: "SandboxForkResult" });

export const SecretInfo = z
  .object({
    secretID: z.string(),
    name: z.string(),
    currentVersion: z.int(),
    metadata: z.record(z.string(), z.string()),
    createdAt: z.string(),
    updatedAt: z.string(),
  })
  .meta({ id: "Secret" });

export const SnapshotInfo = z
  .object({ snapshotID: z.string(), names: z.array(z.string()).describe("Empty without a name.") })
  .meta({ id: "SnapshotInfo" });

export const SandboxMetric = z
  .object({
    timestamp: z.iso.datetime({ offset: true }),
    timestampUnix: z.int(),
    cpuCount: z.int(),
    cpuUsedPct: z.number(),
    memUsed: z.int().describe("Bytes, as all sizes."),
    memTotal: z.int(),
    memCache: z.int(),
    diskUsed: z.int(),
    diskTotal: z.int(),
  })
  .meta({ id: "SandboxMetric" });

export const LogEntry = z
  .object({
    timestamp: z.iso.datetime({ offset: true }),
    level: z.enum(["debug", "info", "warn", "error"]),
    message: z.string(),
    fields: z.record(z.string(), z.string()),
  })
  .meta({ id: "SandboxLogEntry" });

export const Team = z
  .object({ teamID: z.string(), name: z.string(), apiKey: z.string(), isDefault: z.boolean() })
  .meta({ id: "Team" });

/** The answers of the template builder that E2B's SDKs read. (Source: the OpenAPI document in the SDK 2.51.) */

const Time = z.iso.datetime({ offset: true });

const templateNames = {
  templateID: z.string(),
  names: z.array(z.string()),
  aliases: z.array(z.string()),
  public: z.boolean(),
};

const templateSizes = {
  cpuCount: z.int(),
  memoryMB: z.int(),
  diskSizeMB: z.int(),
  envdVersion: z.string(),
};

export const RequestedTemplate = z
  .object({ ...templateNames, buildID: z.uuid(), tags: z.array(z.string()) })
  .meta({ id: "RequestedTemplate" });

export const UploadLinkAnswer = z
  .object({
    present: z.boolean().describe("Whether the files are stored already."),
    url: z.string().optional().describe("The client sends an archive there with PUT. It is the only credential."),
  })
  .meta({ id: "TemplateBuildFileUpload" });

export const BuildLogEntry = z
  .object({
    timestamp: z.iso.datetime(),
    level: z.enum(["debug", "info", "warn", "error"]),
    message: z.string(),
    step: z.string().optional(),
  })
  .meta({ id: "BuildLogEntry" });
export type BuildLogEntry = z.infer<typeof BuildLogEntry>;

const buildStatus = z.enum(["building", "waiting", "ready", "error"]);

export const BuildInfo = z
  .object({
    templateID: z.string(),
    buildID: z.string(),
    status: buildStatus,
    logEntries: z.array(BuildLogEntry),
    logs: z.array(z.string()).describe("Always empty."),
    reason: z
      .object({
        message: z.string(),
        step: z.string().optional().describe("The number of the failed step, `base` or `finalize`."),
        logEntries: z.array(BuildLogEntry),
      })
      .optional(),
  })
  .meta({ id: "TemplateBuildInfo" });

export const TemplateInfo = z
  .object({
    ...templateNames,
    ...templateSizes,
    buildID: z.string(),
    buildStatus,
    buildCount: z.int(),
    createdAt: Time,
    updatedAt: Time,
    createdBy: z.null(),
    lastSpawnedAt: z.null(),
    spawnCount: z.int(),
  })
  .meta({ id: "Template" });

export const TemplateBuild = z
  .object({
    ...templateSizes,
    buildID: z.uuid(),
    status: buildStatus,
    createdAt: Time,
    updatedAt: Time,
    finishedAt: Time.optional(),
  })
  .meta({ id: "TemplateBuild" });
export type TemplateBuild = z.infer<typeof TemplateBuild>;

export const TemplateWithBuilds = z
  .object({
    ...templateNames,
    createdAt: Time,
    updatedAt: Time,
    lastSpawnedAt: z.null(),
    spawnCount: z.int(),
    builds: z.array(TemplateBuild),
  })
  .meta({ id: "TemplateWithBuilds" });

export const UpdatedTemplate = z.object({ names: z.array(z.string()) }).meta({ id: "TemplateUpdateResponse" });
export const BuildLogs = z.object({ logs: z.array(BuildLogEntry) }).meta({ id: "TemplateBuildLogsResponse" });

export const AliasInfo = z.object({ templateID: z.string(), public: z.boolean() }).meta({ id: "TemplateAlias" });
export const AssignedTags = z.object({ buildID: z.uuid(), tags: z.array(z.string()) }).meta({ id: "AssignedTags" });
export const TagInfo = z.object({ tag: z.string(), buildID: z.uuid(), createdAt: Time }).meta({ id: "TemplateTag" });
export const TagExistence = z
  .object({ exists: z.boolean(), normalizedTag: z.string() })
  .meta({ id: "TemplateTagExistsResponse" });
export const TagCount = z.object({ total: z.int() }).meta({ id: "TemplateTagsCountResponse" });
const TagAssignment = z
  .object({
    assignmentId: z.uuid().describe("The same as `buildId`."),
    buildId: z.uuid(),
    assignedAt: Time.describe("The time of the build: that of the assignment is not kept."),
    buildCreatedAt: Time,
    buildFinishedAt: Time,
  })
  .meta({ id: "TemplateTagAssignment" });
const nextCursor = z.string().nullable();
export const TagAssignments = z
  .object({ data: z.array(TagAssignment).describe("The current one."), nextCursor })
  .meta({ id: "TemplateTagAssignmentsResponse" });
export const TagGroups = z
  .object({
    tags: z.array(z.object({ tag: z.string(), assignments: z.array(TagAssignment), hasMore: z.boolean() })),
    nextCursor,
  })
  .meta({ id: "TemplateTagGroupsResponse" });

/** The statuses that E2B's clients expect, where they differ from those of other HTTP servers of Ramet. */
const statuses: Partial<Record<ErrorCode, number>> = {
  AlreadyExists: 409,
  CheckpointNotReady: 409,
  TemplateMismatch: 400,
  QuotaExceeded: 429,
  TooManyRequests: 429,
  NotSupported: 501,
  Canceled: 499,
  SandboxNotReady: 500,
};

/** The error codes of E2B. (Source: the OpenAPI document of e2b-dev/E2B.) */
const codes: Partial<Record<ErrorCode, string>> = {
  Timeout: "sandbox_placement_timeout",
  CpuFeaturesMissing: "sandbox_no_compatible_node",
  EngineMissing: "sandbox_no_compatible_node",
  SandboxNotReady: "sandbox_create_failed",
};

/** The answer to a failed request. Its `code` must be the status: the JavaScript SDK decides by it. */
export function errorAnswer(thrown: unknown): { status: number; body: ErrorBody } {
  const error = requestError(thrown, "The request is not valid");
  const status = statuses[error.code] ?? statusOf(error.code);
  return { status, body: defined({ code: status, message: messageWithHint(error), error_code: codes[error.code] }) };
}
