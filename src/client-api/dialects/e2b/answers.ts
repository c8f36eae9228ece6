import * as z from "zod";

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
