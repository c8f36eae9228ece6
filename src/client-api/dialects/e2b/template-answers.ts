import * as z from "zod";

/** The answers of the template builder that E2B's SDKs read. (Source: the OpenAPI document in the SDK 2.51.) */

const Time = z.iso.datetime({ offset: true });

const names = {
  templateID: z.string(),
  names: z.array(z.string()),
  aliases: z.array(z.string()),
  public: z.boolean(),
};

const sizes = {
  cpuCount: z.int(),
  memoryMB: z.int(),
  diskSizeMB: z.int(),
  envdVersion: z.string(),
};

export const RequestedTemplate = z
  .object({ ...names, buildID: z.uuid(), tags: z.array(z.string()) })
  .meta({ id: "RequestedTemplate" });

export const UploadLinkAnswer = z
  .object({
    present: z.boolean().describe("Whether the files are stored already."),
    url: z.string().optional().describe("The client sends an archive there with PUT. It is the only credential."),
  })
  .meta({ id: "TemplateBuildFileUpload" });

export const LogEntry = z
  .object({
    timestamp: z.iso.datetime(),
    level: z.enum(["debug", "info", "warn", "error"]),
    message: z.string(),
    step: z.string().optional(),
  })
  .meta({ id: "BuildLogEntry" });
export type LogEntry = z.infer<typeof LogEntry>;

const status = z.enum(["building", "waiting", "ready", "error"]);

export const BuildInfo = z
  .object({
    templateID: z.string(),
    buildID: z.string(),
    status,
    logEntries: z.array(LogEntry),
    logs: z.array(z.string()).describe("Always empty."),
    reason: z
      .object({
        message: z.string(),
        step: z.string().optional().describe("The number of the failed step, `base` or `finalize`."),
        logEntries: z.array(LogEntry),
      })
      .optional(),
  })
  .meta({ id: "TemplateBuildInfo" });

export const TemplateInfo = z
  .object({
    ...names,
    ...sizes,
    buildID: z.string(),
    buildStatus: status,
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
    ...sizes,
    buildID: z.uuid(),
    status,
    createdAt: Time,
    updatedAt: Time,
    finishedAt: Time.optional(),
  })
  .meta({ id: "TemplateBuild" });
export type TemplateBuild = z.infer<typeof TemplateBuild>;

export const TemplateWithBuilds = z
  .object({
    ...names,
    createdAt: Time,
    updatedAt: Time,
    lastSpawnedAt: z.null(),
    spawnCount: z.int(),
    builds: z.array(TemplateBuild),
  })
  .meta({ id: "TemplateWithBuilds" });

export const UpdatedTemplate = z.object({ names: z.array(z.string()) }).meta({ id: "TemplateUpdateResponse" });
export const BuildLogs = z.object({ logs: z.array(LogEntry) }).meta({ id: "TemplateBuildLogsResponse" });

export const AliasInfo = z.object({ templateID: z.string(), public: z.boolean() }).meta({ id: "TemplateAlias" });
export const AssignedTags = z.object({ buildID: z.uuid(), tags: z.array(z.string()) }).meta({ id: "AssignedTags" });
export const TagInfo = z.object({ tag: z.string(), buildID: z.uuid(), createdAt: Time }).meta({ id: "TemplateTag" });
