import * as z from "zod";
import { Contents } from "../schema/contents.ts";
import { Digest, Grant } from "./grant.ts";

/** The cell's one HTTP port. */
export const cellPort = 49980;
/** The guest's control port inside the sandbox, for the cell only. */
export const guestControlPort = 49982;
/** The guest's client port inside the sandbox, in the shape of E2B's envd. */
export const guestClientPort = 49983;

/** `sizeLimitBytes`: what can be written to it. Absent: what the node has room for. */
export const EmptyDir = z.strictObject({ sizeLimitBytes: z.number().int().positive().optional() });
export type EmptyDir = z.infer<typeof EmptyDir>;

/** The part of a Pod's container that the cell runs as the sandbox: Kubernetes' own field names and meanings. */
export const ContainerSpec = z.strictObject({
  name: z.string().min(1),
  image: z.string().min(1),
  command: z.array(z.string()).default([]),
  args: z.array(z.string()).default([]),
  workingDir: z.string().startsWith("/").optional(),
  env: z.array(z.strictObject({ name: z.string().min(1), value: z.string().default("") })).default([]),
  user: z.strictObject({ uid: z.number().int().min(0), gid: z.number().int().min(0) }).default({ uid: 0, gid: 0 }),
  /** Whether the template leaves it to the image who the entrypoint is. A cell that is not told goes by `user`. */
  userOfImage: z.literal(true).optional(),
  ports: z.array(z.number().int().min(1).max(65535)).default([]),
  readOnlyRoot: z.boolean().default(false),
  mounts: z
    .array(
      z.strictObject({
        /** A path as the cell sees it. */
        source: z.string().startsWith("/"),
        target: z.string().startsWith("/"),
        readOnly: z.boolean(),
        /** An emptyDir that no other mount shares: what is in it belongs to the sandbox's memory, and to its checkpoints. */
        emptyDir: EmptyDir.optional(),
      }),
    )
    .default([]),
  resources: z
    .strictObject({
      memoryBytes: z.number().int().positive().optional(),
      cpuMillis: z.number().int().positive().optional(),
    })
    .default({}),
});
export type ContainerSpec = z.infer<typeof ContainerSpec>;

/** What a cell is given when it starts, as JSON in the environment variable `RAMET_CELL`. It holds no secret. */
export const CellConfig = z.strictObject({
  v: z.literal(1),
  sandbox: z.strictObject({ namespace: z.string().min(1), name: z.string().min(1), uid: z.string().min(1) }),
  container: ContainerSpec,
  /** Where the template's image is unpacked or mounted, as the cell sees it. */
  rootPath: z.string().startsWith("/"),
  /** The digest of what a restore compares, recorded with each checkpoint (src/api/digest.ts). */
  templateDigest: z.string().min(1),
  /** `boot`: start the container at once. `wait`: make everything ready and wait for a restore. */
  start: z.enum(["boot", "wait"]),
  /** Keep a sandbox made and waiting beside the one that runs, so that a swap takes half the time. */
  keepsWaiting: z.literal(true).optional(),
  /** How long the entrypoint may take to end after it was asked to: the Pod's terminationGracePeriodSeconds. */
  graceSeconds: z.number().int().min(0).default(30),
  /** The controller's Ed25519 public key, base64url of its 32 bytes. */
  publicKey: z.string().min(1),
  /** The gateway's, in the same form: what it signs opens ports of the sandbox and does nothing else. */
  gatewayKey: z.string().min(1).optional(),
  dns: z.strictObject({ upstreams: z.array(z.string()) }).default({ upstreams: [] }),
  /** IPv4 ranges of the cluster (Pods, Services, nodes): refused unless an egress rule names an address inside them. */
  clusterRanges: z.array(z.string()).default([]),
  egress: z
    .strictObject({
      allow: z.array(z.string()).default([]),
      deny: z.array(z.string()).default([]),
      default: z.enum(["allow", "deny"]).default("allow"),
    })
    .default({ allow: [], deny: [], default: "allow" }),
});
export type CellConfig = z.infer<typeof CellConfig>;

/** Who a sandbox is. A clone gets its own before it can be reached. */
export const Identity = z.strictObject({
  sandboxId: z.string().min(1),
  hostname: z.string().min(1),
  /** What clients present to the guest as `X-Access-Token`. */
  accessToken: z.string().min(1),
  environment: z.record(z.string(), z.string()).default({}),
});
export type Identity = z.infer<typeof Identity>;

export const cellPhases = [
  "preparing",
  "waiting",
  "booting",
  "restoring",
  "running",
  "paused",
  "stopping",
  "stopped",
  "failed",
] as const;

export const EngineBuild = z.object({
  /** As `runsc --version` says it. */
  version: z.string().min(1),
  /** As Go says it: `amd64`, `arm64`. */
  architecture: z.string().min(1),
  /** Of the guest's program: its text is in the memory of a sandbox by reference only. */
  guest: Digest,
});
export type EngineBuild = z.infer<typeof EngineBuild>;

export const CellState = z.object({
  phase: z.enum(cellPhases),
  /** What a person should read when `phase` is `failed` or `stopped`. */
  message: z.string().optional(),
  code: z.string().optional(),
  /** How often this sandbox's memory has been given a new identity; 1 after the first boot. */
  generation: z.number().int().min(0),
  /** What restores checkpoints here; known as soon as the cell has had to ask. */
  engine: EngineBuild.optional(),
  /** The checkpoint that is being taken just now. */
  checkpointing: z.string().optional(),
  /** The wish for which another sandbox takes the place of this one just now. */
  swapping: z.string().optional(),
  /** Which of the declared limits nothing enforces here, and why: one sentence. */
  unenforced: z.string().optional(),
  /** Of a sandbox that was restored with its memory: whether all of that is in, or pages are still being read. */
  memory: z.enum(["loading", "loaded"]).optional(),
  /** Of the entrypoint, once it has ended. */
  exitCode: z.number().int().optional(),
  /** Whether the guest answers and has its identity: traffic is open. */
  ready: z.boolean(),
});
export type CellState = z.infer<typeof CellState>;

/** Milliseconds by phase, in the order in which they happened. */
const Phases = z.record(z.string(), z.number());

export const BootRequest = z.strictObject({ identity: Identity });
export type BootRequest = z.infer<typeof BootRequest>;

/** Of a sandbox that runs: what it starts from now on has the identity's environment. */
export const IdentityRequest = z.strictObject({ identity: Identity });
export type IdentityRequest = z.infer<typeof IdentityRequest>;

export const RestoreRequest = z.strictObject({ identity: Identity, grant: Grant, contents: Contents });
export type RestoreRequest = z.infer<typeof RestoreRequest>;
/**
 * Of a sandbox that runs: another one, from a checkpoint, takes its place in the Pod. `request` tells one wish from another:
 * the same again gets the same answer.
 */
export const RestoreInPlaceCall = z.strictObject({ ...RestoreRequest.shape, request: z.string().min(1) });
export type RestoreInPlaceCall = z.infer<typeof RestoreInPlaceCall>;
export const RestoreResult = z.object({ state: CellState, phases: Phases });
export type RestoreResult = z.infer<typeof RestoreResult>;

export const CheckpointRequest = z.strictObject({ grant: Grant, contents: Contents, keepRunning: z.boolean() });
export type CheckpointRequest = z.infer<typeof CheckpointRequest>;
export const CheckpointResult = z.object({
  manifestDigest: Digest,
  sizeBytes: z.number().int().min(0),
  /** The instant of the capture and the instant at which the data was durable: RFC 3339. */
  cutAt: z.string(),
  readyAt: z.string(),
  /** How long the source stood still. */
  pausedMilliseconds: z.number(),
  phases: Phases,
});
export type CheckpointResult = z.infer<typeof CheckpointResult>;

export const StopRequest = z.strictObject({ reason: z.string().min(1) });
export type StopRequest = z.infer<typeof StopRequest>;
