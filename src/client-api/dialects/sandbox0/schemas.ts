import * as z from "zod";
import { lastTime } from "../../service/observe.ts";

/**
 * The requests of Sandbox0's clients. (Source: the wheels sandbox0 0.9.7 and 0.10.4.) Unknown fields are accepted, because newer clients
 * add some; known ones that are not supported are rejected by name.
 */

const Seconds = z.int().min(0).max(2_147_483_647);
const Id = z.string().min(1).max(500);
const Flag = z.union([z.boolean(), z.enum(["true", "false"]).transform((text) => text === "true")]);
export const Environment = z.record(z.string().max(1_000), z.string().max(131_072));

const Times = { ttl: Seconds.optional(), hard_ttl: Seconds.optional() };

const Texts = z.array(z.string().max(300)).max(256).optional();
const PortSpec = z.looseObject({
  port: z.int().min(1).max(65_535),
  protocol: z.string().max(16).toLowerCase().optional(),
  endPort: z.int().min(1).max(65_535).optional(),
});
export type PortSpec = z.infer<typeof PortSpec>;
const Ports = z.array(PortSpec).max(256).optional();
const TrafficRule = z.looseObject({
  action: z.enum(["allow", "deny"]),
  cidrs: Texts,
  domains: Texts,
  ports: Ports,
  appProtocols: Texts,
});
export type TrafficRule = z.infer<typeof TrafficRule>;

export const Network = z
  .looseObject({
    mode: z.enum(["allow-all", "block-all"]),
    egress: z
      .looseObject({
        allowedCidrs: Texts,
        allowedDomains: Texts,
        allowedPorts: Ports,
        deniedCidrs: Texts,
        deniedDomains: Texts,
        deniedPorts: Ports,
        trafficRules: z.array(TrafficRule).max(256).optional(),
        protocolRules: z.array(z.unknown()).max(256).optional(),
        credentialRules: z.array(z.unknown()).max(256).optional(),
        proxy: z.unknown().optional(),
      })
      .optional(),
    credentialBindings: z.array(z.unknown()).max(256).optional(),
  })
  .meta({ id: "SandboxNetworkPolicy" });
export type Network = z.infer<typeof Network>;

export const Service = z
  .object({
    id: z.string().min(1).max(63),
    port: z.int().min(1).max(65_535),
    display_name: z.string().max(200).optional(),
    runtime: z.looseObject({ type: z.string().max(32) }).optional(),
    health_check: z.unknown().optional(),
    ingress: z.object({
      public: z.boolean(),
      routes: z
        .array(
          z.looseObject({
            path_prefix: z.string().max(1_000).optional(),
            methods: z.array(z.string().max(16)).max(16).nullish(),
            auth: z.looseObject({ mode: z.string().max(32) }).optional(),
            resume: z.boolean().optional(),
          }),
        )
        .max(16)
        .nullish(),
    }),
  })
  .meta({ id: "SandboxAppService" });
export type Service = z.infer<typeof Service>;
const mostServices = 32;

export const Services = z.looseObject({ services: z.array(Service).max(mostServices) });

const Config = z
  .looseObject({
    ...Times,
    env_vars: Environment.optional(),
    auto_resume: z.boolean().optional(),
    resources: z.looseObject({ memory: z.string().max(64).optional() }).optional(),
    network: Network.optional(),
    webhook: z.unknown().optional(),
    services: z.array(Service).max(mostServices).optional(),
  })
  .meta({ id: "SandboxConfig" });
export type Config = z.infer<typeof Config>;

export const Claim = z
  .looseObject({
    template: Id,
    snapshot_id: Id.optional(),
    config: Config.optional(),
    mounts: z.array(z.unknown()).optional(),
  })
  .meta({ id: "ClaimRequest" });
export type Claim = z.infer<typeof Claim>;

export const Update = z.looseObject({ config: Config }).meta({ id: "SandboxUpdateRequest" });

export const ListSandboxes = z.looseObject({
  status: z.enum(["starting", "running", "paused", "terminating", "failed"]).optional(),
  template_id: z.string().max(500).optional(),
  paused: Flag.optional(),
  limit: z.coerce.number().int().min(1).max(200).default(50),
  offset: z.coerce.number().int().min(0).max(1_000_000).default(0),
});

/** Of a pause or a resume. */
export const ExecutionState = z.looseObject({ memory: z.boolean().default(false) }).nullish();

export const Refresh = z.looseObject({ duration: Seconds.optional() }).nullish();

export const Fork = z
  .looseObject({ memory: z.boolean().default(false), config: z.strictObject(Times).optional() })
  .nullish();

export const NewSnapshot = z
  .looseObject({
    name: z.string().max(1_000).optional(),
    description: z.string().max(10_000).optional(),
    expires_at: z.iso.datetime({ offset: true }).nullish(),
  })
  .nullish();

export const Restore = z.looseObject({ snapshot_id: Id });

export const Size = z.int().min(1).max(10_000);

export const NewContext = z
  .looseObject({
    type: z.enum(["repl", "cmd"]).default("repl"),
    repl: z
      .looseObject({ alias: z.string().max(32).optional(), input: z.string().max(1_000_000).optional() })
      .optional(),
    cmd: z.looseObject({ command: z.array(z.string().max(131_072)).min(1).max(1_000) }).optional(),
    wait_until_done: z.boolean().default(false),
    cwd: z.string().max(4_096).optional(),
    env_vars: Environment.optional(),
    pty_size: z.looseObject({ rows: Size, cols: Size }).optional(),
    idle_timeout_sec: Seconds.optional(),
    ttl_sec: Seconds.optional(),
  })
  .meta({ id: "CreateContextRequest" });
export type NewContext = z.infer<typeof NewContext>;

export const Input = z.looseObject({ data: z.string().max(1_000_000) });
export const Resize = z.looseObject({ rows: Size, cols: Size });
export const Signal = z.looseObject({ signal: z.string().max(16) });

export const Path = z
  .string()
  .min(1)
  .max(4_096)
  .refine((path) => !/[\0\n\r]/.test(path), { error: "contains a character that no path may have" });
export const FileQuery = z.looseObject({ path: Path });
export const WriteQuery = z.looseObject({ path: Path, mkdir: Flag.optional(), recursive: Flag.optional() });
export const Move = z.looseObject({ source: Path, destination: Path });

const Moment = z.iso.datetime({ offset: true }).optional();
const limitOf = (usual: number, most: number) =>
  z.coerce
    .number()
    .int()
    .min(1)
    .describe(`More than ${most} counts as ${most}.`)
    .default(usual)
    .transform((limit) => Math.min(limit, most));
export const ReadMetrics = z.looseObject({
  start_time: Moment,
  end_time: Moment,
  metrics: z.string().max(2_000).optional(),
});
const ReadObserved = z.looseObject({
  start_time: Moment,
  end_time: Moment,
  limit: limitOf(1_000, 10_000),
  cursor: z.coerce.number().int().min(0).max(lastTime).optional(),
  watch: Flag.optional(),
});
export const ReadLogs = ReadObserved.extend({
  context_id: z.string().max(200).optional(),
  stream: z.enum(["stdout", "stderr", "pty"]).optional(),
});
const Word = z.string().max(200).optional();
export const ReadEvents = ReadObserved.extend({
  source: Word,
  event_type: Word,
  outcome: Word,
  actor_kind: Word,
  actor_id: z.string().max(500).optional(),
  action: Word,
  resource_type: Word,
  operation_id: Word,
  event_id: Word,
});

/** The limits of a key. Clients before 0.10 know the storage of snapshots, later ones paused sandboxes. */
export const QuotaDimension = z.enum([
  "active_sandboxes",
  "paused_sandboxes",
  "snapshot_storage_gb",
  "sandbox_claims",
  "api_requests",
  "network_egress_bytes",
  "network_ingress_bytes",
]);
export type QuotaDimension = z.infer<typeof QuotaDimension>;

export const ReadUsage = z.looseObject({
  cursor: z.string().max(1_000).optional(),
  limit: limitOf(100, 1_000),
  window_type: z.string().max(200).optional(),
});

export const FromSandbox = z
  .looseObject({
    template_id: Id,
    sandbox_id: Id,
    spec_overrides: z
      .strictObject({
        description: z.string().max(10_000).optional(),
        displayName: z.string().max(1_000).optional(),
        tags: z.array(z.string().max(200)).max(100).optional(),
        pool: z.unknown().optional(),
      })
      .optional(),
  })
  .meta({ id: "TemplateFromSandboxCreateRequest" });
