import { create } from "tar";
import { treeArchive, treeCheckpointName, treeUser, uploadedTree } from "../../api/tree/tree-check.ts";
import { type DirectoryTree, readDirectoryTree } from "../../base/directory-tree.ts";
import { RametError } from "../../base/errors.ts";
import { uploadTree as storeTree } from "../../operations/upload-tree.ts";
import { type Cluster, type ClusterOptions, withCluster } from "../cluster/cluster.ts";
import { clusterObjects } from "../cluster/objects.ts";
import type { AccessFlags } from "../cluster/gateway-credentials.ts";
import { withGuest } from "../cluster/guest-access.ts";
import { type Io, printLine } from "../io.ts";
import { sandboxSource } from "../platform/source.ts";

export interface UploadTreeOptions extends ClusterOptions, AccessFlags {
  /** A local directory, or a file. */
  path: string;
  /** The template of the sandbox through which the files are stored. */
  template: string;
  /** Milliseconds; `Infinity` waits forever. */
  timeout: number;
}

/** `ramet snapshot upload`: stores a directory for copy steps, unless the namespace has it, and prints its digest. */
export async function uploadTree(io: Io, options: UploadTreeOptions): Promise<void> {
  const tree = readDirectoryTree(options.path);
  return withCluster(io, options, async (cluster) => {
    const at = { namespace: cluster.namespace, name: treeCheckpointName(tree.digest) };
    const found = await cluster.checkpoints.find(at, { signal: io.signal });
    if (uploadedTree(found, tree.digest) === undefined) await store(io, cluster, tree, options);
    printLine(io.stdout, tree.digest);
  });
}

async function store(io: Io, cluster: Cluster, tree: DirectoryTree, options: UploadTreeOptions): Promise<void> {
  const { namespace, checkpoints } = cluster;
  const { signal, clock } = io;
  await storeTree(clusterObjects(io, cluster), {
    namespace,
    digest: tree.digest,
    source: { spec: await sandboxSource(cluster, options) },
    archive: archiveOf(tree),
    write: ({ metadata: { name } }, content) =>
      withGuest(io, cluster, { sandbox: name, flags: options, user: treeUser }, (guest) =>
        guest.writeFile(treeArchive, content, signal),
      ),
    read: (at) => checkpoints.get(at, { signal }),
    clock,
    timeoutMilliseconds: options.timeout,
    signal,
  });
}

/** The archive, whose modes are those that the digest covers. */
function archiveOf({ root, entries }: DirectoryTree): AsyncIterable<Buffer> {
  if (entries.length === 0) throw new RametError("InvalidArgument", `Cannot upload ${root}: it is empty`);
  const executable = new Set(entries.filter((one) => one.type === "file" && one.executable).map(({ path }) => path));
  return create(
    {
      cwd: root,
      portable: true,
      noDirRecurse: true,
      onWriteEntry: (entry) => {
        const stat = entry.stat;
        if (stat === undefined) return;
        const isRun = stat.isDirectory() || executable.has(entry.path.replace(/^\.\//, ""));
        stat.mode = (stat.mode & ~0o7777) | (isRun ? 0o755 : 0o644);
      },
    },
    entries.map(({ path }) => `./${path}`),
  );
}
