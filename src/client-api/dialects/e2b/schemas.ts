import { ttlPattern } from "../../../base/duration.ts";
import * as z from "zod";
import { tagPattern } from "../../../api/snapshot/snapshot-reference.ts";

/**
 * The requests of E2B's SDKs. (Source: the OpenAPI document of e2b-dev/E2B at b8029973, and the calls of the SDKs 2.0 to 2.63.)
 * Unknown fields are accepted, because newer SDKs add some; known ones that are not supported are rejected by name.
 */

const Seconds = z.int().max(10_000_000_000);
const StringMap = z.record(z.string().max(1024), z.string().max(100_000));

/** Headers that are added to requests to a domain. */
const NetworkRules = z.record(
  z.string().max(260),
  z
    .array(
      z.looseObject({
        transform: z
          .looseObject({ headers: z.record(z.string().max(128), z.string().max(16_384)).nullish() })
          .nullish(),
      }),
    )
    .max(32),
);
const ProxyText = z.string().max(255).optional();
const EgressProxy = z.looseObject({
  address: z.string().max(260),
  username: ProxyText,
  password: ProxyText,
  tls: z.unknown().optional(),
});

const egressFields = {
  allowOut: z.array(z.string().max(253)).max(100).optional(),
  denyOut: z.array(z.string().max(253)).max(100).optional(),
  rules: NetworkRules.nullish(),
  egressProxy: EgressProxy.nullish(),
  dnsServers: z.array(z.ipv4()).max(10).nullish(),
};
const Network = z.looseObject({
  allowPublicTraffic: z.boolean().nullish(),
  maskRequestHost: z.string().max(300).nullish(),
  httpsPorts: z.array(z.int().min(1).max(65_535)).max(100).nullish(),
  ...egressFields,
});
export type Network = z.infer<typeof Network>;

/** Tokens of a workload that headers can name. */
export const Tokens = z
  .record(
    z.string().min(1).max(128),
    z.looseObject({ audience: z.string().min(1).max(512), tokenType: z.literal("JWT-SVID") }),
  )
  .refine((tokens) => Object.keys(tokens).length <= 5, { error: "has more than 5 tokens" });
export type Tokens = z.infer<typeof Tokens>;

export const NewSandbox = z
  .looseObject({
    templateID: z.string().min(1).max(500),
    timeout: Seconds.optional(),
    autoPause: z.boolean().optional(),
    autoPauseMemory: z.boolean().optional(),
    autoResume: z.looseObject({ enabled: z.boolean() }).optional(),
    secure: z.boolean().optional(),
    allow_internet_access: z.boolean().optional(),
    network: Network.optional(),
    metadata: StringMap.optional(),
    envVars: StringMap.optional(),
    mcp: z.unknown().optional(),
    iam: z.looseObject({ tokens: Tokens.default({}) }).nullish(),
    volumeMounts: z.array(z.looseObject({})).optional(),
  })
  .meta({ id: "NewSandbox" });
export type NewSandbox = z.infer<typeof NewSandbox>;

/** Fields that are left out are cleared. */
export const NetworkUpdate = z.looseObject({ allow_internet_access: z.boolean().optional(), ...egressFields });

export const Connect = z.looseObject({ timeout: Seconds.optional(), memory: z.boolean().optional() }).nullish();
export const Resume = z.looseObject({ timeout: Seconds.optional(), autoPause: z.boolean().optional() }).nullish();
export const Timeout = z.looseObject({ timeout: Seconds });
export const Refresh = z.looseObject({ duration: z.int().min(0).max(3600).optional() }).nullish();
export const Pause = z
  .looseObject({ memory: z.boolean().optional(), requireHealthyGuest: z.boolean().optional() })
  .nullish();
export const NewSnapshot = z
  .looseObject({ name: z.string().min(1).max(500).optional(), memory: z.boolean().optional() })
  .nullish();
export const Fork = z.looseObject({ timeout: Seconds.optional(), count: z.int().min(1).max(100).optional() }).nullish();

/** A page of a list. */
export const Page = z.looseObject({
  limit: z.coerce.number().int().min(1).max(100).default(100),
  nextToken: z.string().max(500).optional(),
});

/** Values are joined by commas, or repeated. */
const Words = z
  .union([z.string().max(20_000), z.array(z.string().max(200)).max(100)])
  .transform((given) => [given].flat().flatMap((text) => text.split(",")));

export const ListSandboxes = Page.extend({
  // SDKs send an empty text for a filter without states.
  state: Words.transform((given) => (given.every((text) => text === "") ? ["running", "paused"] : given))
    .pipe(z.array(z.enum(["running", "paused"])))
    .default(["running", "paused"]),
  metadata: z.string().max(16_384).optional(),
  order: z.enum(["asc", "desc"]).default("desc"),
  startedAfter: z.iso.datetime({ offset: true }).optional(),
  template: z.string().max(500).optional(),
});

export const ListSnapshots = Page.extend({
  sandboxID: z.string().max(200).optional(),
  name: z.string().max(500).optional(),
});

/** Seconds since 1970. */
const UnixSeconds = z.coerce.number().int().min(0).max(8_640_000_000_000).optional();
export const ReadMetrics = z.looseObject({ start: UnixSeconds, end: UnixSeconds });

export const ListMetrics = z.looseObject({
  sandbox_ids: Words.pipe(z.array(z.string().min(1).max(200)).min(1).max(100)),
});

/** Milliseconds since 1970. */
const UnixMilliseconds = z.coerce.number().int().min(0).max(8_640_000_000_000_000).optional();
const LogLimit = z.coerce.number().int().min(0).max(1000).default(1000);
export const ReadLogs = z.looseObject({ start: UnixMilliseconds, limit: LogLimit });
export const ReadLogsV2 = z.looseObject({
  cursor: UnixMilliseconds,
  limit: LogLimit,
  direction: z.enum(["forward", "backward"]).default("forward"),
  level: z.enum(["debug", "info", "warn", "error"]).optional(),
  search: z.string().max(256).optional(),
});
const SecretMetadata = z
  .record(z.string().min(1).max(128), z.string().max(1024))
  .refine((given) => Object.keys(given).length <= 32 && JSON.stringify(given).length <= 10_240, {
    error: "has more than 32 entries, or is larger than 8 KiB",
  });
const SecretValue = z.string().min(1).max(16_384);
export const NewSecret = z.looseObject({
  name: z
    .string()
    .min(1)
    .max(128)
    .regex(/^[^{}\p{Cc}/]+$/u, "contains a brace, a slash or a control character")
    .transform((name) => name.toLowerCase())
    .refine((name) => !name.startsWith("sec_"), { error: "begins with sec_, as only ids do" }),
  value: SecretValue,
  metadata: SecretMetadata.optional(),
});
export const SecretUpdate = z.looseObject({ value: SecretValue, metadata: SecretMetadata.optional() });

/** Headers of OpenKruise's manager, which extend the creation of a snapshot. */
export const SnapshotHeaders = z.looseObject({
  "x-e2b-kruise-snapshot-keep-running": z.enum(["true", "false"]).optional(),
  "x-e2b-kruise-snapshot-ttl": z
    .string()
    .max(20)
    .regex(ttlPattern, "must be a duration like 30m, 30h or 30d")
    .optional(),
  "x-e2b-kruise-snapshot-persistent-contents": z.string().max(100).optional(),
  "x-e2b-kruise-snapshot-wait-success-seconds": z.coerce.number().int().min(1).max(600).optional(),
});

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
  cursor: UnixMilliseconds,
  limit: z.coerce.number().int().min(0).max(100).default(100),
  direction: z.enum(["forward", "backward"]).default("forward"),
  level: z.enum(["debug", "info", "warn", "error"]).default("debug"),
});

export const LogsQuery = z.looseObject({
  logsOffset: z.coerce.number().int().min(0).max(1_000_000_000).default(0),
  limit: z.coerce.number().int().min(0).max(100).default(100),
});

export const AssignTags = z.looseObject({ target: Name, tags: Tags.min(1) });

export const RemoveTags = z.looseObject({ name: Name, tags: Tags.min(1) });

export const TagExists = z.looseObject({ tag: z.string().min(1).max(200) });
export const ListTagGroups = z.looseObject({
  tagsLimit: z.coerce.number().int().min(1).max(100).default(25),
  tagsCursor: z.string().max(500).optional(),
  search: z.string().max(200).default(""),
  sort: z.enum(["latest_desc", "latest_asc", "name_asc", "name_desc"]).default("latest_desc"),
});
