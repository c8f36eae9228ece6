import { mkdir, readFile, rmdir, stat, statfs } from "node:fs/promises";
import { RametError, errnoOf } from "../../../base/errors.ts";
import { type Mount, parseMounts } from "../../../base/machine.ts";
import { runProgram } from "../../../base/run-program.ts";
import { unlessMissing } from "../../files.ts";
import { type RequestOf, checkCapabilities, requests, topologyOf } from "../requests.ts";
import type { VolumeRecord } from "../storage/records.ts";
import type { Storage, Use } from "../storage/storage.ts";
import { type Method, method } from "../unary.ts";

/**
 * The Node service. A volume is published as a bind mount of its directory, and needs no staging.
 * @param mayMount whether this process may mount
 */
export function nodeService(storage: Storage, nodeId: string, mayMount: boolean): Record<string, Method> {
  const { volumes, operations } = storage;

  /** @throws RametError `NotFound` if the volume does not exist, or is not mounted at the path */
  const getAt = async (id: string, path: string): Promise<VolumeRecord> => {
    const volume = await volumes.get(id);
    if (await isSameDirectory(path, volumes.dataOf(id))) return volume;
    throw new RametError("NotFound", `The volume ${id} is not mounted at ${path}`);
  };

  const publish = async (request: RequestOf<"publish">): Promise<object> => {
    const { volumeId, targetPath, volumeCapability, readonly } = request;
    checkCapabilities([volumeCapability]);
    await operations.run(mountsOf(volumeId), async () => {
      await volumes.get(volumeId);
      if (!mayMount)
        throw new RametError(
          "HostUnsupported",
          "Publishing the volume failed: the driver may not mount, it lacks CAP_SYS_ADMIN",
          { hint: "Run the driver in a privileged container, or as root" },
        );
      const data = volumes.dataOf(volumeId);
      const at = await mountPointsOf(data);
      if (at.includes(targetPath)) return;
      if (at.length > 0 && volumeCapability.accessMode?.mode === "SINGLE_NODE_SINGLE_WRITER")
        throw new RametError(
          "VolumeNotShareable",
          `Publishing ${volumeId} failed: its access mode allows one writer, and it is published at ${at.join(", ")}`,
        );
      const flags = [...(volumeCapability.mount?.mountFlags ?? []), ...(readonly ? ["ro"] : [])];
      await mkdir(targetPath, { recursive: true, mode: 0o750 });
      await bindMount(data, targetPath, flags);
    });
    return {};
  };

  const unpublish = async ({ volumeId, targetPath }: RequestOf<"unpublish">): Promise<object> => {
    await operations.run(mountsOf(volumeId), async () => {
      for (let left = mostMounts; left > 0 && (await isMountPoint(targetPath)); left--) await unmount(targetPath);
      await rmdir(targetPath).catch(unlessMissing);
    });
    return {};
  };

  return {
    NodeGetCapabilities: method(requests.empty, () => ({
      capabilities: ["GET_VOLUME_STATS", "EXPAND_VOLUME", "SINGLE_NODE_MULTI_WRITER"].map((type) => ({
        rpc: { type },
      })),
    })),
    NodeGetInfo: method(requests.empty, () => ({ nodeId, accessibleTopology: topologyOf(nodeId) })),
    NodePublishVolume: method(requests.publish, publish),
    NodeUnpublishVolume: method(requests.unpublish, unpublish),
    NodeGetVolumeStats: method(requests.volumeStats, async ({ volumeId, volumePath }) => {
      await getAt(volumeId, volumePath);
      return { usage: await usageOf(volumePath) };
    }),
    NodeExpandVolume: method(requests.expandOnNode, async ({ volumeId, volumePath }) => {
      const { capacityBytes } = await getAt(volumeId, volumePath);
      return { capacityBytes };
    }),
  };
}

/** A volume can be published while it is copied, but not while it is deleted. */
function mountsOf(volumeId: string): Use {
  return { changes: `the mounts of ${volumeId}`, reads: volumeId };
}

/** The mounts that an interrupted unpublication, or a publication by somebody else, can leave. */
const mostMounts = 8;

/** Returns the usage of the whole file system, because the file system sets no limit for a directory. */
async function usageOf(path: string): Promise<object[]> {
  const { blocks, bfree, bavail, bsize, files, ffree } = await statfs(path);
  return [
    { unit: "BYTES", total: blocks * bsize, available: bavail * bsize, used: (blocks - bfree) * bsize },
    { unit: "INODES", total: files, available: ffree, used: files - ffree },
  ];
}

/** Mounts the directory `source` at the existing directory `target`. */
export async function bindMount(source: string, target: string, flags: readonly string[]): Promise<void> {
  await run("mount", ["--bind", "--", source, target]);
  if (flags.length === 0) return;
  // The kernel takes the flags of a bind mount only in a second step.
  await run("mount", ["-o", ["remount", "bind", ...flags].join(","), "--", target]).catch(async (error: unknown) => {
    await unmount(target);
    throw error;
  });
}

/** Removes the topmost mount at `target`. */
export async function unmount(target: string): Promise<void> {
  await run("umount", ["--", target]);
}

/** Whether both paths lead to the same directory, as a bind mount and its source do. */
export async function isSameDirectory(a: string, b: string): Promise<boolean> {
  const [one, other] = await Promise.all([identityOf(a), identityOf(b)]);
  return one !== undefined && one === other;
}

/** The mount points at which a directory is visible, from the mount table of this process. */
export async function mountPointsOf(directory: string): Promise<string[]> {
  const mounts = parseMounts(await readFile("/proc/self/mountinfo", "utf8"));
  // The last of those at the longest path has the directory: it covers the others.
  const holder = mounts
    .filter(({ target: at }) => directory === at || directory.startsWith(at === "/" ? "/" : `${at}/`))
    .reduce<Mount | undefined>(
      (best, one) => (best !== undefined && best.target.length > one.target.length ? best : one),
      undefined,
    );
  if (holder === undefined) return [];
  const below = directory.slice(holder.target === "/" ? 0 : holder.target.length);
  const root = `${holder.root === "/" ? "" : holder.root}${below}`;
  return mounts.filter((one) => one.device === holder.device && one.root === root).map(({ target }) => target);
}

/** Whether something is mounted at exactly this path. */
export async function isMountPoint(path: string): Promise<boolean> {
  return parseMounts(await readFile("/proc/self/mountinfo", "utf8")).some(({ target }) => target === path);
}

async function identityOf(path: string): Promise<string | undefined> {
  try {
    const { dev, ino } = await stat(path, { bigint: true });
    return `${dev} ${ino}`;
  } catch (error) {
    if (["ENOENT", "ENOTDIR"].includes(errnoOf(error) ?? "")) return undefined;
    throw error;
  }
}

async function run(program: string, args: readonly string[]): Promise<void> {
  const { code, stderr } = await runProgram({ program, args, timeoutMilliseconds: 30_000 });
  if (code === 0) return;
  const why = stderr.trim().split("\n").at(-1) ?? "";
  throw new RametError("Internal", `${program} failed: ${why}`, { retryable: true });
}
