import { chmod, mkdir, statfs } from "node:fs/promises";
import type { Clock } from "../../../base/clock.ts";
import { defined } from "../../../base/defined.ts";
import { RametError } from "../../../base/errors.ts";
import {
  type CapacityRange,
  type RequestOf,
  checkCapabilities,
  isOnNode,
  pageOf,
  requests,
  topologyOf,
  unsupported,
} from "../requests.ts";
import { type VolumeRecord, idOf } from "../storage/records.ts";
import type { Storage } from "../storage/storage.ts";
import { type Method, method } from "../unary.ts";

export interface ControllerOptions {
  storage: Storage;
  nodeId: string;
  clock: Clock;
}

/** The methods of the Controller service for volumes. */
export function volumeMethods({ storage, nodeId, clock }: ControllerOptions): Record<string, Method> {
  const { volumes, operations } = storage;

  const view = ({ id, capacityBytes, source }: VolumeRecord): object => ({
    volumeId: id,
    capacityBytes,
    volumeContext: storage.volumeContext,
    accessibleTopology: [topologyOf(nodeId)],
    ...(source && {
      contentSource:
        source.kind === "volume" ? { volume: { volumeId: source.id } } : { snapshot: { snapshotId: source.id } },
    }),
  });

  const create = async (request: RequestOf<"createVolume">): Promise<object> => {
    checkCreation(request, nodeId);
    const { name, capacityRange } = request;
    const source = sourceOf(request);
    const id = idOf("volume", name);
    return operations.run({ changes: id, reads: source?.id }, async () => {
      const existing = await volumes.find(id);
      if (existing !== undefined) {
        checkSame(existing, request);
        return { volume: view(existing) };
      }
      const original = source && (await storage.contentOf(source));
      const volume: VolumeRecord = {
        format: 1,
        id,
        name,
        createdAt: clock.now().toISOString(),
        capacityBytes: newCapacity(capacityRange, original?.sizeBytes),
        ...defined({ source }),
      };
      await volumes.create(volume, (data) => (original ? storage.copy(original.path, data) : makeEmpty(data)));
      return { volume: view(volume) };
    });
  };

  const expand = async ({ volumeId, capacityRange, volumeCapability }: RequestOf<"expandVolume">): Promise<object> => {
    if (volumeCapability) checkCapabilities([volumeCapability]);
    return operations.run({ changes: volumeId }, async () => {
      const volume = await volumes.get(volumeId);
      const capacityBytes = expandedCapacity(capacityRange, volume.capacityBytes);
      if (capacityBytes !== volume.capacityBytes) await volumes.update({ ...volume, capacityBytes });
      return { capacityBytes, nodeExpansionRequired: false };
    });
  };

  return {
    CreateVolume: method(requests.createVolume, create),
    DeleteVolume: method(requests.volume, async ({ volumeId }) => {
      await operations.run({ changes: volumeId }, () => volumes.remove(volumeId));
      return {};
    }),
    ValidateVolumeCapabilities: method(requests.validateVolume, async (request) => {
      const { volumeId, volumeContext, volumeCapabilities, parameters, mutableParameters } = request;
      await volumes.get(volumeId);
      const why = volumeCapabilities.map(unsupported).find((text) => text !== undefined);
      if (why !== undefined) return { message: why };
      return { confirmed: { volumeContext, volumeCapabilities, parameters, mutableParameters } };
    }),
    ListVolumes: method(requests.listVolumes, async (request) => {
      const { page, nextToken } = pageOf(await volumes.list(), request);
      return { entries: page.map((volume) => ({ volume: view(volume) })), nextToken };
    }),
    ControllerGetVolume: method(requests.volume, async ({ volumeId }) => ({
      volume: view(await volumes.get(volumeId)),
    })),
    GetCapacity: method(requests.getCapacity, async ({ volumeCapabilities, accessibleTopology }) => {
      const fits = volumeCapabilities.every((one) => unsupported(one) === undefined);
      if (!fits || (accessibleTopology && !isOnNode([accessibleTopology], nodeId))) return { availableCapacity: 0 };
      const { bavail, bsize } = await statfs(storage.directory);
      return { availableCapacity: bavail * bsize };
    }),
    ControllerExpandVolume: method(requests.expandVolume, expand),
  };
}

function sourceOf({ volumeContentSource: from }: RequestOf<"createVolume">): VolumeRecord["source"] {
  if (from === undefined) return undefined;
  if (from.snapshot) return { kind: "snapshot", id: from.snapshot.snapshotId };
  if (from.volume) return { kind: "volume", id: from.volume.volumeId };
  throw new RametError("InvalidArgument", "The content source is neither a snapshot nor a volume");
}

/** Mode 0777, because the user of a sandbox is any user. The parent directory admits only the driver. */
async function makeEmpty(data: string): Promise<void> {
  await mkdir(data);
  await chmod(data, 0o777);
}

function checkCreation(request: RequestOf<"createVolume">, nodeId: string): void {
  checkCapabilities(request.volumeCapabilities);
  checkParameters({ ...request.parameters, ...request.mutableParameters }, "StorageClass");
  const { requisite = [] } = request.accessibilityRequirements ?? {};
  if (requisite.length > 0 && !isOnNode(requisite, nodeId))
    throw new RametError(
      "VolumesFull",
      `The volume cannot be created: it must be accessible from another node than ${nodeId}`,
    );
}

/** The prefix of the parameters that external-provisioner and csi-snapshotter add to those of a class. */
const sidecarPrefix = "csi.storage.k8s.io/";

/** @param kind of the class. @throws RametError `InvalidArgument` */
export function checkParameters(parameters: Record<string, string>, kind: string): void {
  const parameter = Object.keys(parameters).find((key) => !key.startsWith(sidecarPrefix));
  if (parameter === undefined) return;
  throw new RametError("InvalidArgument", `The driver has no parameter ${parameter}`, {
    hint: `Remove it from the ${kind}`,
  });
}

function checkSame(existing: VolumeRecord, request: RequestOf<"createVolume">): void {
  const source = sourceOf(request);
  const isSame = source?.kind === existing.source?.kind && source?.id === existing.source?.id;
  const fits = isInRange(existing.capacityBytes, request.capacityRange);
  if (fits && isSame) return;
  const what = fits ? "another content source" : `a capacity of ${existing.capacityBytes} bytes`;
  throw new RametError("AlreadyExists", `A volume with this name exists with ${what}`);
}

/** The size of a volume whose size nobody requests. */
const defaultBytes = 1024 ** 3;

/**
 * The capacity of a new volume: what is required, and at least that of its source.
 * @throws RametError `OutOfRange` if the source needs more than is requested
 */
export function newCapacity(range: CapacityRange = unlimited, sourceBytes = 0): number {
  checkRange(range);
  const { requiredBytes, limitBytes } = range;
  if (requiredBytes > 0 && requiredBytes < sourceBytes) throw tooSmall(requiredBytes, sourceBytes);
  if (requiredBytes > 0) return requiredBytes;
  const bytes = sourceBytes > 0 ? sourceBytes : Math.min(defaultBytes, most(range));
  if (bytes > most(range)) throw tooSmall(limitBytes, bytes);
  return bytes;
}

/** The capacity of a volume after it was expanded. A volume never becomes smaller. @throws RametError `OutOfRange` */
export function expandedCapacity(range: CapacityRange, currentBytes: number): number {
  checkRange(range);
  const bytes = Math.max(range.requiredBytes, currentBytes);
  if (bytes > most(range)) throw tooSmall(range.limitBytes, bytes);
  return bytes;
}

/** Whether an existing volume is as large as is requested. */
export function isInRange(bytes: number, range: CapacityRange = unlimited): boolean {
  return bytes >= range.requiredBytes && bytes <= most(range);
}

const unlimited: CapacityRange = { requiredBytes: 0, limitBytes: 0 };

function most({ limitBytes }: CapacityRange): number {
  return limitBytes === 0 ? Infinity : limitBytes;
}

function checkRange(range: CapacityRange): void {
  const { requiredBytes, limitBytes } = range;
  if (requiredBytes <= most(range)) return;
  throw new RametError(
    "InvalidArgument",
    `The limit of ${limitBytes} bytes is below the required ${requiredBytes} bytes`,
  );
}

function tooSmall(requested: number, least: number): RametError {
  return new RametError("OutOfRange", `${requested} bytes are too few: the content needs a volume of ${least} bytes`, {
    hint: `Request ${least} bytes or more`,
  });
}
