import * as z from "zod";

/** The answers that AgentTier's clients read. (Source: the models of the wheel agenttier 0.8.1.) */

const Status = z.enum(["Creating", "Running", "Stopped", "Error", "Deleting"]);
export type Status = z.infer<typeof Status>;

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
