import { join } from "node:path";
import type { DirectoryGrant } from "../../api/cell/grant.ts";
import { checkedNamespace, checkedRef, type CheckpointRef } from "../checkpoint-id.ts";
import type { CheckpointStore } from "../checkpoint-store.ts";
import { expiryOf } from "../grant-check.ts";
import type { PublishedCheckpoint, Step } from "../sessions.ts";
import { guarded } from "../store-error.ts";
import { namespaceOf, makeNamespaceFolder, requireFolders } from "./namespace-directory.ts";
import { layoutOf, type Layout } from "./layout.ts";
import { namespacesIn } from "./namespaces.ts";
import { bindStore, ownerOf } from "./owner.ts";
import { probeStore } from "./probe.ts";
import { requireRoot } from "./root.ts";
import { findPublished, publishedManifest } from "./published.ts";
import { removeCheckpoint } from "./remove.ts";
import { scrubStore } from "./scrub.ts";
import { sweepStore } from "./sweep.ts";
import { noUsage, usageOf } from "./usage.ts";

export interface DirectoryStoreOptions {
  /** The folder that holds a folder for each namespace; it must exist. All on one file system that has hard links. */
  root: string;
  /** Where a cell sees its namespace's folder. Default: where it is. */
  cellPath?: (namespace: string) => string;
  /** `probe` says `StoreFull` below this. Default: 256 MiB. */
  minimumFreeBytes?: number;
  /** Milliseconds since 1970. Default: the system's clock. */
  now?: () => number;
  onStep?: Step;
}

/** A store in a folder of this machine, or of a file system that all nodes mount. */
export function directoryStore(options: DirectoryStoreOptions): CheckpointStore {
  const { root, now = Date.now } = options;
  const step: Step = async (name) => options.onStep?.(name);
  const cellPath = options.cellPath ?? ((namespace) => join(root, namespace));

  function grantFor(ref: CheckpointRef, access: DirectoryGrant["access"], ttlMilliseconds: number): DirectoryGrant {
    const { namespace, checkpointId } = ref;
    const expiresAt = expiryOf(now(), ttlMilliseconds);
    return { driver: "directory", access, namespace, checkpointId, path: cellPath(namespace), expiresAt };
  }

  /** A namespace's folder, if there is one: the first grant to write makes it. */
  async function folderOf(namespace: string): Promise<Layout | undefined> {
    const layout = layoutOf(join(root, checkedNamespace(namespace)));
    await requireRoot(root);
    if ((await namespaceOf(layout.path)) === undefined) return undefined;
    await requireFolders(layout.path, layout.contentFolder, layout.checkpoints, layout.staging);
    return layout;
  }

  function find(request: CheckpointRef): Promise<PublishedCheckpoint | undefined> {
    return guarded(`looking for checkpoint ${request.checkpointId}`, async () => {
      const ref = checkedRef(request);
      const layout = await folderOf(ref.namespace);
      return layout && findPublished(layout, ref);
    });
  }

  return {
    bind: (cluster) => guarded(`binding the store ${root}`, () => bindStore(root, cluster)),
    owner: () => guarded(`reading whose store ${root} is`, () => ownerOf(root)),
    grantWrite: (request) =>
      guarded(`granting to write checkpoint ${request.checkpointId}`, async () => {
        const ref = checkedRef(request);
        await requireRoot(root);
        await makeNamespaceFolder(root, join(root, ref.namespace), ref.namespace);
        return grantFor(ref, "write", request.ttlMilliseconds);
      }),
    grantRead: (request) =>
      guarded(`granting to read checkpoint ${request.checkpointId}`, () =>
        Promise.resolve({
          ...grantFor(checkedRef(request), "read", request.ttlMilliseconds),
          manifestDigest: request.manifestDigest,
        }),
      ),
    manifest: (request) =>
      guarded(`reading the manifest of checkpoint ${request.checkpointId}`, async () => {
        const ref = checkedRef(request);
        const layout = (await folderOf(ref.namespace)) ?? layoutOf(join(root, ref.namespace));
        return publishedManifest(layout, ref, request.digest);
      }),
    find,
    has: async (ref) => (await find(ref)) !== undefined,
    remove: (request) =>
      guarded(`removing checkpoint ${request.checkpointId}`, async () => {
        const ref = checkedRef(request);
        const layout = await folderOf(ref.namespace);
        return layout === undefined ? { removed: false, freedBytes: 0 } : removeCheckpoint(layout, ref, step);
      }),
    sweep: (request) => guarded(`sweeping the store ${root}`, () => sweepStore(root, request, { now: now(), step })),
    scrub: (request = {}) => guarded(`scrubbing the store ${root}`, () => scrubStore(root, request)),
    usage: (namespace) =>
      guarded(`measuring namespace ${namespace}`, async () => {
        const layout = await folderOf(namespace);
        return layout === undefined ? noUsage : usageOf(layout);
      }),
    namespaces: () =>
      guarded(`listing the namespaces of the store ${root}`, async () => {
        const { found } = await namespacesIn(root);
        return found.map(({ namespace }) => namespace).sort();
      }),
    probe: () => probeStore(root, options.minimumFreeBytes ?? 256 << 20),
  };
}
