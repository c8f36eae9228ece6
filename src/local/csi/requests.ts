import * as z from "zod";
import { RametError } from "../../base/errors.ts";

/** CSI limits names and ids to 128 bytes, and maps to 4 KiB. */
const Text = z.string().refine((text) => Buffer.byteLength(text) <= 128, "must have at most 128 bytes");
const Given = Text.refine((text) => text !== "", "must be given");
const StringMap = z
  .record(z.string(), z.string())
  .refine((map) => Buffer.byteLength(Object.entries(map).flat().join("")) <= 4096, "must have at most 4 KiB");
const Path = z
  .string()
  .refine((path) => path.startsWith("/"), "must be an absolute path")
  .refine((path) => path.length < 4096 && !path.includes("\0"), "must be a path")
  .refine((path) => !path.split("/").includes(".."), "must not contain ..");
/** A path that is only compared with those of mounts. */
const GivenPath = z.string().refine((path) => path !== "", "must be given");
/** Sizes above 8 PiB are equal to Ramet. */
const Bytes = z
  .number()
  .transform((bytes) => Math.min(bytes, Number.MAX_SAFE_INTEGER))
  .pipe(z.int().nonnegative());
const absent = <T extends z.ZodType>(schema: T) => schema.nullish().transform((value) => value ?? undefined);

const CapacityRange = z.object({ requiredBytes: Bytes, limitBytes: Bytes });
export type CapacityRange = z.output<typeof CapacityRange>;

const Capability = z.object({
  accessType: z.enum(["block", "mount"]).optional(),
  mount: absent(z.object({ mountFlags: z.array(z.string()) })),
  accessMode: absent(z.object({ mode: z.string() })),
});
type Capability = z.output<typeof Capability>;
const GivenCapability = Capability.nullish().transform((value, context) => {
  if (value?.accessType !== undefined && value.accessMode !== undefined) return value;
  context.addIssue("must be given, with an access type and an access mode");
  return z.NEVER;
});

const Topology = z.object({ segments: StringMap });
const Topologies = absent(z.object({ requisite: z.array(Topology), preferred: z.array(Topology) }));
const Page = { maxEntries: z.int().nonnegative(), startingToken: z.string() };

/** The requests of CSI, as far as the driver reads them. Secrets are not read. */
export const requests = {
  empty: z.object({}),
  createVolume: z.object({
    name: Given,
    capacityRange: absent(CapacityRange),
    volumeCapabilities: z.array(GivenCapability).min(1),
    parameters: StringMap,
    mutableParameters: StringMap,
    volumeContentSource: absent(
      z.object({
        snapshot: absent(z.object({ snapshotId: Given })),
        volume: absent(z.object({ volumeId: Given })),
      }),
    ),
    accessibilityRequirements: Topologies,
  }),
  volume: z.object({ volumeId: Given }),
  validateVolume: z.object({
    volumeId: Given,
    volumeContext: StringMap,
    volumeCapabilities: z.array(GivenCapability).min(1),
    parameters: StringMap,
    mutableParameters: StringMap,
  }),
  listVolumes: z.object(Page),
  getCapacity: z.object({ volumeCapabilities: z.array(Capability), accessibleTopology: absent(Topology) }),
  expandVolume: z.object({ volumeId: Given, capacityRange: CapacityRange, volumeCapability: absent(Capability) }),
  createSnapshot: z.object({ name: Given, sourceVolumeId: Given, parameters: StringMap }),
  snapshot: z.object({ snapshotId: Given }),
  createGroup: z.object({ name: Given, sourceVolumeIds: z.array(Given).min(1), parameters: StringMap }),
  group: z.object({ groupSnapshotId: Given, snapshotIds: z.array(Given) }),
  listSnapshots: z.object({ ...Page, sourceVolumeId: Text, snapshotId: Text }),
  publish: z.object({
    volumeId: Given,
    targetPath: Path,
    volumeCapability: GivenCapability,
    readonly: z.boolean(),
  }),
  unpublish: z.object({ volumeId: Given, targetPath: Path }),
  volumeStats: z.object({ volumeId: Given, volumePath: GivenPath }),
  expandOnNode: z.object({ volumeId: Given, volumePath: GivenPath, volumeCapability: absent(Capability) }),
} as const;

export type RequestOf<Name extends keyof typeof requests> = z.output<(typeof requests)[Name]>;

interface Entry {
  id: string;
  createdAt: string;
}

/**
 * One page of a list that is sorted by age. The token is the first entry of the next page; if that entry has been deleted, the page
 * starts after its place. New entries come last, so a caller that reads page after page misses none.
 * @throws RametError `Conflict` for a token that is none
 */
export function pageOf<E extends Entry>(
  entries: readonly E[],
  { maxEntries, startingToken }: { maxEntries: number; startingToken: string },
): { page: E[]; nextToken: string } {
  if (startingToken !== "" && !tokenPattern.test(startingToken))
    throw new RametError("Conflict", "Listing failed: the starting token is not one of this driver", {
      hint: "Start the list again without a token",
    });
  const rest = entries.filter((entry) => tokenOf(entry) >= startingToken);
  const page = maxEntries === 0 ? rest : rest.slice(0, maxEntries);
  const next = rest[page.length];
  return { page, nextToken: next === undefined ? "" : tokenOf(next) };
}

const tokenPattern = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z [a-z]+-[0-9a-f]{40}$/;

/** Sorts as the list does, because all times have the same length. */
function tokenOf({ createdAt, id }: Entry): string {
  return `${createdAt} ${id}`;
}

/** A volume is a directory of one machine, so each access mode works, also those for several nodes. */
const modes: ReadonlySet<string> = new Set([
  "SINGLE_NODE_WRITER",
  "SINGLE_NODE_READER_ONLY",
  "SINGLE_NODE_SINGLE_WRITER",
  "SINGLE_NODE_MULTI_WRITER",
  "MULTI_NODE_READER_ONLY",
  "MULTI_NODE_SINGLE_WRITER",
  "MULTI_NODE_MULTI_WRITER",
]);

/** Options that a bind mount can have. */
const mountFlags: ReadonlySet<string> = new Set([
  "ro",
  "noatime",
  "nodiratime",
  "relatime",
  "noexec",
  "nosuid",
  "nodev",
]);

/** Why volumes cannot be used like this, or undefined if they can. */
export function unsupported({ accessType, accessMode, mount }: Capability): string | undefined {
  if (accessType === "block") return "its volumes are directories, so none can be a block device";
  const mode = accessMode?.mode;
  if (mode !== undefined && !modes.has(mode)) return `it does not support the access mode ${mode}`;
  const flag = mount?.mountFlags.find((one) => !mountFlags.has(one));
  return flag === undefined ? undefined : `it does not support the mount option ${flag}`;
}

/** @throws RametError `InvalidArgument` */
export function checkCapabilities(capabilities: readonly Capability[]): void {
  for (const capability of capabilities) {
    const why = unsupported(capability);
    if (why !== undefined) throw new RametError("InvalidArgument", `The driver cannot provide the volume: ${why}`);
  }
}

const topologyKey = "topology.local.csi.ramet.dev/node";

/** Volumes are accessible from the node that has their directory. */
export function topologyOf(nodeId: string): { segments: Record<string, string> } {
  return { segments: { [topologyKey]: nodeId } };
}

/** Whether one of the topologies includes the node. */
export function isOnNode(topologies: readonly { segments: Record<string, string> }[], nodeId: string): boolean {
  return topologies.some(({ segments }) => segments[topologyKey] === nodeId);
}
