import * as z from "zod";
import { Capacity, Contents, ReportedPrograms, SandboxActivity, WritableLayer } from "../schema/metadata.ts";
import { jsonValue } from "../../base/canonical-json.ts";
import { EngineBuild } from "../engine/engine.ts";
import { Digest } from "../schema/digest.ts";
import { Grant, LayerRef, mostLayers } from "./grant.ts";

/** The cell's one HTTP port. */
export const cellPort = 49980;
/** The cell serves the log and the egress report of its sandbox on this port, to clients that a gateway authorized. */
export const reportsPort = 49981;
/** The guest's control port inside the sandbox, for the cell only. */
export const guestControlPort = 49982;
/** The guest's client port inside the sandbox, with the API of E2B's envd. */
export const guestClientPort = 49983;
/** The port of E2B's code interpreter in images that have one, where everyone with access runs code. */
export const codeInterpreterPort = 49999;

/** `sizeLimitBytes` defaults to the free space of the node. */
export const EmptyDir = z.strictObject({
  sizeLimitBytes: z.number().int().positive().optional().describe("The most bytes that it can have."),
});
export type EmptyDir = z.infer<typeof EmptyDir>;

/** The fields of a Pod's container that the cell runs as the sandbox. */
export const ContainerSpec = z.strictObject({
  name: z.string().min(1),
  image: z.string().min(1),
  command: z.array(z.string()).default([]),
  args: z.array(z.string()).default([]),
  workingDir: z.string().startsWith("/").optional(),
  env: z.array(z.strictObject({ name: z.string().min(1), value: z.string().default("") })).default([]),
  user: z.strictObject({ uid: z.number().int().min(0), gid: z.number().int().min(0) }).default({ uid: 0, gid: 0 }),
  /** Whether the image determines the user. If the cell does not know the image's user, `user` applies. */
  userOfImage: z.literal(true).optional(),
  ports: z.array(z.number().int().min(1).max(65535)).default([]),
  readOnlyRoot: z.boolean().default(false),
  mounts: z
    .array(
      z.strictObject({
        /** A path in the cell. */
        source: z.string().startsWith("/"),
        target: z.string().startsWith("/"),
        readOnly: z.boolean(),
        /** An emptyDir that no other mount shares: its files are in the sandbox's memory and in its checkpoints. */
        emptyDir: EmptyDir.optional(),
      }),
    )
    .default([]),
  resources: z
    .strictObject({
      memoryBytes: z.number().int().positive().optional(),
      cpuMillis: z.number().int().positive().optional(),
      /** The size of the writable layer. Undefined: the cell's default. */
      storageBytes: z.number().int().positive().optional(),
    })
    .default({}),
});
export type ContainerSpec = z.infer<typeof ContainerSpec>;

/** Enough for the packages and repositories of most agents, and less than the disk of most nodes. */
export const defaultLayerBytes = 10 * 1024 ** 3;

/** The size of a sandbox's writable layer. */
export function layerBytesOf({ resources }: Pick<ContainerSpec, "resources">): number {
  return resources.storageBytes ?? defaultLayerBytes;
}

const egressFields = {
  allow: z.array(z.string()).default([]),
  deny: z.array(z.string()).default([]),
  default: z.enum(["allow", "deny"]).default("allow"),
};

/** The egress policy of a sandbox: deny rules first, then allow rules, then the default (docs/reference/network.md). */
export const EgressPolicy = z.strictObject({
  ...egressFields,
  /** Further policies that must allow a connection too. Their rules open no address that is always refused. */
  narrowedBy: z.array(z.strictObject(egressFields)).optional(),
});
export type EgressPolicy = z.infer<typeof EgressPolicy>;

const Count = z.number().int().min(0);

/** The outgoing traffic of a sandbox since its Pod started. */
export const EgressReport = z.object({
  connections: z.object({
    allowed: Count,
    denied: Count,
    /** Allowed, but the destination did not accept them. */
    failed: Count,
    /** Reset, because the sandbox had too many open connections. */
    overLimit: Count,
    open: Count,
  }),
  /** Bytes of connections, without DNS. */
  bytes: z.object({ out: Count, in: Count }),
  dns: z.object({ questions: Count, refused: Count }),
  /** Up to 64 refused destinations and names, the last one first. */
  refused: z.array(z.object({ what: z.string(), why: z.string(), count: Count, last: z.string() })),
});
export type EgressReport = z.infer<typeof EgressReport>;

const PublicKeys = z.array(z.string().regex(/^[\w-]{43}$/, "is not the base64url of 32 bytes")).max(4);

/** The public keys whose tokens a cell accepts, in the form of `CellConfig.publicKey`. */
export const KeySets = z.strictObject({
  /** For every operation. */
  controllers: PublicKeys.min(1),
  /** For `ports` only. */
  gateways: PublicKeys,
});
export type KeySets = z.infer<typeof KeySets>;

/** The configuration of a cell: JSON in the environment variable `RAMET_CELL`. It holds no secret. */
export const CellConfig = z.strictObject({
  v: z.literal(1),
  sandbox: z.strictObject({ namespace: z.string().min(1), name: z.string().min(1), uid: z.string().min(1) }),
  container: ContainerSpec,
  /** The path in the cell at which the template's image is unpacked or mounted. */
  rootPath: z.string().startsWith("/"),
  /** The digest of the fields that a restore compares, recorded with each checkpoint (template-digest.ts). */
  templateDigest: z.string().min(1),
  /** `boot`: start the container immediately. `wait`: prepare and wait for a restore. */
  start: z.enum(["boot", "wait"]),
  /** With `wait`: what will be restored. Memory is restored into a sandbox that the cell creates while it waits. */
  restores: z.literal("memory").optional(),
  /** The layers of what will be restored, if this is known: the cell creates its sandbox on those that the node has. */
  layers: z.array(LayerRef).max(mostLayers).optional(),
  /** The size of the writable layer, if the container has no limit. @default {@link defaultLayerBytes} */
  layerBytes: z.number().int().positive().optional(),
  /** The size limit of the directory that the cells of a node and a namespace share. @default they share none */
  nodeCacheBytes: z.number().int().positive().optional(),
  /** Keep the writable layer in memory instead of on disk. */
  layerInMemory: z.literal(true).optional(),
  /** Keep a second, empty sandbox ready, so that a restore in place takes half the time. */
  keepsWaiting: z.literal(true).optional(),
  /** The time for the entrypoint to exit after SIGTERM: the template's terminationGracePeriodSeconds. */
  graceSeconds: z.number().int().min(0).default(30),
  /** The Pod's terminationGracePeriodSeconds, if the cell holds its end until the controllers have captured the sandbox. */
  podGraceSeconds: z.number().int().positive().optional(),
  /** The ports of the Pod's `tcpSocket` probes, which the cell answers without a token. */
  tcpProbePorts: z.array(z.number().int().min(1).max(65535)).optional(),
  /** The controller's Ed25519 public key, base64url of its 32 bytes. */
  publicKey: z.string().min(1),
  /** The gateway's public key, in the same form. Its tokens can only open ports of the sandbox. */
  gatewayKey: z.string().min(1).optional(),
  /** During a rotation of keys: all keys that the cell accepts. Replaces the two keys above. */
  keySets: KeySets.optional(),
  dns: z
    .strictObject({
      upstreams: z.array(z.string()).default([]),
      /** The cluster's DNS domain, if it is not cluster.local. */
      clusterDomain: z.string().optional(),
    })
    .default({ upstreams: [] }),
  /** IPv4 ranges of the cluster (Pods, Services, nodes): denied unless an egress rule names an address inside them. */
  clusterRanges: z.array(z.string()).default([]),
  egress: EgressPolicy.default({ allow: [], deny: [], default: "allow" }),
});
export type CellConfig = z.infer<typeof CellConfig>;

/** The identity of a sandbox. A clone gets its own identity before it accepts traffic. */
export const Identity = z.strictObject({
  sandboxId: z.string().min(1),
  hostname: z.string().min(1),
  /** The token that clients send to the guest as `X-Access-Token`. */
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

export const CellState = z.object({
  phase: z.enum(cellPhases),
  /** The reason if `phase` is `failed` or `stopped`. */
  message: z.string().optional(),
  code: z.string().optional(),
  /** What to do about it, if known. */
  hint: z.string().optional(),
  /** How many identities this sandbox's memory has had. 1 after the first boot. */
  generation: z.number().int().min(0),
  /** The build that restores checkpoints here, once the cell has determined it. */
  engine: EngineBuild.optional(),
  /** The CPUs and the memory that the sandbox has: its limits, or without them those of the machine. */
  capacity: Capacity.optional(),
  writableLayer: WritableLayer.optional(),
  /** Neither the template nor the image names a program to start. */
  lacksEntrypoint: z.literal(true).optional(),
  /** The checkpoint whose capture is in progress. */
  checkpointing: z.string().optional(),
  /** The request of the restore in place that is in progress. */
  swapping: z.string().optional(),
  /** The Pod is being ended, and the sandbox runs until it is captured, its end is intended, or the grace period is nearly over. */
  endHeld: z.literal(true).optional(),
  /** One sentence: which declared limits are not enforced here, and why. */
  unenforced: z.string().optional(),
  /** For a sandbox that was restored with its memory: whether all pages are loaded. */
  memory: z.enum(["loading", "loaded"]).optional(),
  /** The entrypoint's exit code, once it has exited. */
  exitCode: z.number().int().optional(),
  activity: SandboxActivity.optional(),
  /** Whether the guest has its identity and the sandbox is open to traffic. */
  ready: z.boolean(),
});
export type CellState = z.infer<typeof CellState>;

/** Why a cell failed, as JSON in its container's termination message: a kubelet reports the same reason for all of them. */
const FailedCell = z.object({
  code: z.string().regex(/^[A-Za-z]{1,64}$/),
  message: z.string(),
  hint: z.string().optional(),
});

export function printFailedCell({ code, message, hint }: CellState): string {
  return JSON.stringify({ code, message, hint });
}

/** Undefined for every other text. */
export function parseFailedCell(text: string | undefined): z.infer<typeof FailedCell> | undefined {
  return FailedCell.safeParse(jsonValue(text ?? "")).data;
}

/** Milliseconds by phase, in their order. */
const Phases = z
  .record(z.string().max(64), z.number())
  .refine((phases) => Object.keys(phases).length <= 64, "has more than 64 phases");

export const BootRequest = z.strictObject({ identity: Identity });
export type BootRequest = z.infer<typeof BootRequest>;
/** For a running sandbox: new commands get the identity's environment. */
export const IdentityRequest = z.strictObject({ identity: Identity });
export type IdentityRequest = z.infer<typeof IdentityRequest>;

/** Replaces the keys whose tokens the cell accepts. */
export const KeysRequest = z.strictObject({ keys: KeySets });
export type KeysRequest = z.infer<typeof KeysRequest>;
export const EgressRequest = z.strictObject({ policy: EgressPolicy });
export type EgressRequest = z.infer<typeof EgressRequest>;

/** Headers by name. Their values can be secret. */
const Headers = z.record(z.string(), z.string());

/** The credentials that link adds to requests of the sandbox. They are in the memory of the cell and of link, and nowhere else in a Pod. */
export const LinkCredentials = z.strictObject({
  rules: z.array(z.strictObject({ domain: z.string(), headers: Headers })).max(128),
  /** Absent: TLS connections pass untouched. */
  tls: z
    .strictObject({
      /** Base64 of the 32 bytes from which the CA is made. */
      seed: z.string(),
      /** PEM of certificates that link trusts besides the public ones. */
      trusted: z.string().optional(),
    })
    .optional(),
  /** A SOCKS5 proxy through which allowed connections leave. */
  proxy: z
    .strictObject({ address: z.string(), username: z.string().optional(), password: z.string().optional() })
    .optional(),
});
export type LinkCredentials = z.infer<typeof LinkCredentials>;
export const CredentialsRequest = z.strictObject({ credentials: LinkCredentials });
export type CredentialsRequest = z.infer<typeof CredentialsRequest>;

export const RestoreRequest = z.strictObject({
  identity: Identity,
  grant: Grant,
  contents: Contents,
  /** Grants for the layers of the checkpoint, in their order: the first is directly above the image. */
  layers: z.array(Grant).max(mostLayers).optional(),
});
export type RestoreRequest = z.infer<typeof RestoreRequest>;
/** Replaces the running sandbox by a checkpoint. `request` identifies the operation: repeating it returns the same result. */
export const RestoreInPlaceCall = z.strictObject({
  ...RestoreRequest.shape,
  request: z.string().min(1),
  /** Report which programs were ended, and which run then. */
  reportsPrograms: z.literal(true).optional(),
});
export type RestoreInPlaceCall = z.infer<typeof RestoreInPlaceCall>;
export const RestoreResult = z.object({ state: CellState, phases: Phases, programs: ReportedPrograms });
export type RestoreResult = z.infer<typeof RestoreResult>;

/** The longest time for which a cell keeps its sandbox paused while others capture its volumes. */
export const longestHoldMilliseconds = 120_000;

/** Pauses the sandbox until its checkpoint is captured or released, for a limited time. */
export const HoldRequest = z.strictObject({
  checkpointId: z.string().min(1),
  /** After this time the cell resumes the sandbox without a call. */
  milliseconds: z.number().int().min(1).max(longestHoldMilliseconds),
});
export type HoldRequest = z.infer<typeof HoldRequest>;

/** Ends the pause for a checkpoint. No error if it is over. */
export const ReleaseRequest = z.strictObject({ checkpointId: z.string().min(1) });
export type ReleaseRequest = z.infer<typeof ReleaseRequest>;
export const ReleaseResult = z.object({
  /** How long the sandbox was paused; absent: it was not. */
  pausedMilliseconds: z.number().optional(),
});
export type ReleaseResult = z.infer<typeof ReleaseResult>;

export const CheckpointRequest = z
  .strictObject({
    grant: Grant,
    contents: Contents,
    keepRunning: z.boolean(),
    /** The sandbox is paused by `hold` for this checkpoint, and is captured in that pause or not at all. */
    held: z.literal(true).optional(),
    /** Capture the changed files as a layer, which sandboxes on one node share. Programs are not paused for it. */
    asLayer: z.literal(true).optional(),
    /** Look for programs whose clones repeat random numbers. */
    findRandomPrograms: z.literal(true).optional(),
    /** The limit for the checkpoint's size. Nothing is published above it, and the sandbox keeps running. */
    maxBytes: z.number().int().min(0).optional(),
  })
  .refine(
    ({ asLayer, contents, keepRunning, held }) =>
      asLayer !== true || (contents.length === 1 && contents[0] === "filesystem" && keepRunning && held !== true),
    "asLayer captures the files of a sandbox that keeps running, and nothing else",
  );
export type CheckpointRequest = z.infer<typeof CheckpointRequest>;
export const CheckpointResult = z.object({
  manifestDigest: Digest,
  sizeBytes: z.number().int().min(0),
  /** How much of that the store had already. Absent from a cell of an earlier release. */
  sharedBytes: z.number().int().min(0).optional(),
  /** The capture time, and the time when the data was durable: RFC 3339. */
  cutAt: z.iso.datetime({ offset: true }),
  readyAt: z.iso.datetime({ offset: true }),
  /** How long the sandbox was paused. */
  pausedMilliseconds: z.number(),
  phases: Phases,
});
export type CheckpointResult = z.infer<typeof CheckpointResult>;

export const StopRequest = z.strictObject({ reason: z.string().min(1) });
export type StopRequest = z.infer<typeof StopRequest>;
