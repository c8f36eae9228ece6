import * as z from "zod";
import { tagPattern } from "../../../api/snapshot/snapshot-tags.ts";

/**
 * The requests of the template builder of E2B's SDKs. (Source: the OpenAPI document of e2b-dev/E2B, and the calls of the SDK 2.51.)
 */

const Name = z.string().min(1).max(200);
const Tags = z.array(z.string().toLowerCase().regex(tagPattern, "must be a tag")).max(50);

export const RequestBuild = z.looseObject({
  name: Name.optional(),
  /** The same as `name`, from older SDKs. */
  alias: Name.optional(),
  tags: Tags.nullish(),
  cpuCount: z.int().min(1).max(1024).nullish(),
  memoryMB: z.int().min(128).max(16_777_216).nullish(),
  minFreeDiskMb: z.int().nullish(),
});

const Argument = z.string().max(65_536);

export const TemplateStep = z.looseObject({
  type: z.string().max(20),
  args: z.array(Argument).max(1000).default([]),
  force: z.boolean().nullish(),
  filesHash: z.string().max(200).nullish(),
});
export type TemplateStep = z.infer<typeof TemplateStep>;

export const FromImageRegistry = z.looseObject({
  type: z.string().max(20),
  username: z.string().min(1).max(1000).optional(),
  password: z.string().min(1).max(16_384).optional(),
});

export const StartBuild = z.looseObject({
  fromImage: z.string().max(500).nullish(),
  fromTemplate: z.string().max(500).nullish(),
  fromImageRegistry: FromImageRegistry.nullish(),
  startCmd: Argument.nullish(),
  readyCmd: Argument.nullish(),
  steps: z.array(TemplateStep).max(100).default([]),
  force: z.boolean().nullish(),
});
export type StartBuild = z.infer<typeof StartBuild>;

export const UpdateTemplate = z.looseObject({ public: z.boolean().nullish() });

export const ReadBuildLogs = z.looseObject({
  /** Milliseconds since 1970. */
  cursor: z.coerce.number().int().min(0).max(8_640_000_000_000_000).optional(),
  limit: z.coerce.number().int().min(0).max(100).default(100),
  direction: z.enum(["forward", "backward"]).default("forward"),
  level: z.enum(["debug", "info", "warn", "error"]).default("debug"),
});

export const LogsQuery = z.looseObject({
  logsOffset: z.coerce.number().int().min(0).max(1_000_000_000).default(0),
  limit: z.coerce.number().int().min(0).max(100).default(100),
});

export const ListTemplates = z.looseObject({
  limit: z.coerce.number().int().min(1).max(100).default(100),
  nextToken: z.string().max(500).optional(),
});

export const AssignTags = z.looseObject({ target: Name, tags: Tags.min(1) });

export const RemoveTags = z.looseObject({ name: Name, tags: Tags.min(1) });
