import * as z from "zod";
import { atomicList } from "./rules.ts";

const dateTime = z.iso.datetime({ offset: true });

/** RFC 3339 with any offset. Like the API server, accepts upper and lower case. */
export const Time = z
  .string()
  .refine((text) => dateTime.safeParse(text.toUpperCase()).success, "must be a time like 2030-01-01T00:00:00Z")
  .meta({ crd: { type: "string", format: "date-time" } });

export const OwnerReference = z.looseObject({
  apiVersion: z.string(),
  kind: z.string(),
  name: z.string(),
  uid: z.string(),
  controller: z.boolean().optional(),
  blockOwnerDeletion: z.boolean().optional(),
});
export type OwnerReference = z.infer<typeof OwnerReference>;

const written = {
  generateName: z.string().optional(),
  labels: z.record(z.string(), z.string()).optional(),
  annotations: z.record(z.string(), z.string()).optional(),
  finalizers: z.array(z.string()).optional(),
  ownerReferences: z.array(OwnerReference).optional(),
};

/** The metadata of a namespaced object from the API server, with the fields that the server always sets. */
export const ObjectMeta = z.looseObject({
  ...written,
  name: z.string(),
  namespace: z.string(),
  uid: z.string(),
  resourceVersion: z.string(),
  creationTimestamp: z.string(),
  /** Incremented when the spec changes. Absent on kinds without a status subresource, such as Pods. */
  generation: z.number().int().optional(),
  deletionTimestamp: z.string().optional(),
  deletionGracePeriodSeconds: z.number().int().optional(),
});
export type ObjectMeta = z.infer<typeof ObjectMeta>;

/** The metadata of an object before it is written, without fields that the server sets. */
export const ManifestMeta = z.looseObject({
  ...written,
  name: z.string().optional(),
  namespace: z.string().optional(),
});
export type ManifestMeta = z.infer<typeof ManifestMeta>;

/** metav1.Condition with the limits of the Kubernetes type. */
export const Condition = z.object({
  type: z.string().max(316).describe("The type of the condition, in CamelCase."),
  status: z.enum(["True", "False", "Unknown"]).describe("Whether the condition holds."),
  reason: z.string().min(1).max(1024).describe("Why it has this status, in one CamelCase word for programs."),
  message: z.string().max(32768).describe("The same for people, with the next step."),
  lastTransitionTime: Time.describe("When the status last changed."),
  observedGeneration: z.int().min(0).optional().describe("The generation of the spec that the condition is about."),
});
export type Condition = z.infer<typeof Condition>;

export const Conditions = z
  .array(Condition)
  .meta({ "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"] })
  .describe("What the controllers have observed, one condition of each type.");

/** The field of every status that says how current it is. */
export const ObservedGeneration = z.int().optional().describe("The generation of the spec that the status is about.");

/** The field of a status with one sentence for people. */
export const StatusMessage = z.string().optional().describe("Why the phase is what it is, in one sentence.");

/**
 * Known values and any other string: another controller (ACS, a newer Ramet) may write a phase that this version does not know,
 * and the object must still be readable.
 */
export type Open<T extends string> = T | (string & {});

/** A string in the schema, {@link Open} in the type. */
export function openString<T extends string>(_known: readonly T[]): z.ZodType<Open<T>, Open<T>> {
  return z.string();
}

/** The contents of a checkpoint. A sandbox may also list `ip`, which is never part of a checkpoint. */
export const Contents = z
  .array(z.enum(["memory", "filesystem"]))
  .refine((list) => list.includes("filesystem"), "must be [filesystem] or [memory, filesystem]")
  .refine((list) => new Set(list).size === list.length, "must not list a content twice");
export type Contents = z.infer<typeof Contents>;

/** The CPUs, in thousandths, and the memory of a sandbox. */
export const Capacity = z.object({
  cpuMillis: z.int().positive().describe("Thousandths of a CPU."),
  memoryBytes: z.int().positive().describe("Bytes of memory."),
});
export type Capacity = z.infer<typeof Capacity>;

export const WritableLayer = z.object({
  medium: z.enum(["disk", "memory"]).describe("Where the files are that the sandbox writes."),
  sizeBytes: z.int().positive().describe("The most bytes that they can have."),
});
export type WritableLayer = z.infer<typeof WritableLayer>;

/** What a sandbox has done since its last capture, which had this id. */
export const SandboxActivity = z.object({
  checkpointId: z.string(),
  milliseconds: z.number().min(0),
  cpuMilliseconds: z.number().min(0),
  /** Those that clients have exchanged with it through its cell. */
  bytes: z.number().min(0),
});
export type SandboxActivity = z.infer<typeof SandboxActivity>;

/** The name of a program in a sandbox, without its arguments, which can have secrets. */
const ProgramName = z.string().regex(/^[\w.+?-]{1,64}$/);

/** Entries that a layer lacks. */
export const LeftOut = z.object({
  count: z.int().min(1).describe("How many."),
  names: atomicList(z.string()).max(5).describe("The first of them."),
});

export const RandomPrograms = z.array(ProgramName).max(8);

export const Programs = z.object({
  processes: z.int().min(0).describe("The number of processes."),
  names: atomicList(ProgramName).max(20).describe("The names of their programs."),
  others: z.int().min(1).optional().describe("The number of names that are left out."),
});
export type Programs = z.infer<typeof Programs>;

/** The programs of a sandbox before and after a restore in place. */
export const ReplacedPrograms = z.object({
  ended: Programs.optional().describe("Those that it has ended. Absent: not known."),
  running: Programs.optional().describe("Those that ran then. Absent: not known."),
});
export type ReplacedPrograms = z.infer<typeof ReplacedPrograms>;
/** As a cell reports them: a restore has succeeded whatever they are. */
export const ReportedPrograms = ReplacedPrograms.optional().catch(undefined);
