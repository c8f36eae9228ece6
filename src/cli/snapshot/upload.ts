import { createHash } from "node:crypto";
import { Readable } from "node:stream";
import { create } from "tar";
import { apiVersion } from "../../api/schema/kind.ts";
import { labels } from "../../api/names/labels.ts";
import { TreeCheck } from "../../api/tree/tree-check.ts";
import {
  treeArchive,
  treeCheckpointName,
  treeMetadata,
  treePurpose,
  treeUser,
  uploadedTree,
} from "../../api/tree/tree-upload.ts";
import { type DirectoryTree, readDirectoryTree } from "../../base/directory-tree.ts";
import { RametError } from "../../base/errors.ts";
import type { GuestClient } from "../../cell/client/guest-client.ts";
import { awaitSandbox } from "../../operations/await-sandbox.ts";
import { untilCaptured } from "../../operations/capture.ts";
import { objectOf } from "../../operations/objects.ts";
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
  const { namespace, sandboxes, checkpoints } = cluster;
  const { digest } = tree;
  const objects = clusterObjects(io, cluster);
  const wait = { timeoutMilliseconds: options.timeout, signal: io.signal };
  const sandbox = await cluster.create(
    sandboxes,
    {
      apiVersion,
      kind: "Sandbox",
      metadata: { namespace, generateName: "tree-", labels: { [labels.purpose]: treePurpose } },
      spec: await sandboxSource(cluster, options, io.signal),
    },
    io.signal,
  );
  const { name, uid } = sandbox.metadata;
  try {
    objectOf(await awaitSandbox(objects, sandbox, { ...wait, isNew: true }));
    const access = { sandbox: name, flags: options, user: treeUser };
    const sha256 = await withGuest(io, cluster, access, (guest) => write(io, guest, tree));
    const manifest = {
      apiVersion,
      kind: "Checkpoint",
      metadata: treeMetadata({ namespace, digest, sha256 }),
      spec: { sandboxName: name, persistentContents: ["filesystem"] },
    };
    const created = await cluster.create(checkpoints, manifest, io.signal);
    objectOf(await untilCaptured(objects, created, wait));
  } finally {
    await sandboxes.delete({ namespace, name }, { uid }).catch(() => undefined);
  }
}

/** Writes the archive, whose modes are those that the digest covers. @returns its SHA-256 */
async function write(io: Io, guest: GuestClient, { root, entries }: DirectoryTree): Promise<string> {
  if (entries.length === 0) throw new RametError("InvalidArgument", `Cannot upload ${root}: it is empty`);
  const executable = new Set(entries.filter((one) => one.type === "file" && one.executable).map(({ path }) => path));
  const archive = create(
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
  const check = new TreeCheck();
  const hash = createHash("sha256");
  async function* checked(): AsyncGenerator<Buffer> {
    for await (const chunk of archive) {
      check.add(chunk);
      hash.update(chunk);
      yield chunk;
    }
    check.end();
  }
  await guest.writeFile(treeArchive, Readable.from(checked()), io.signal);
  return hash.digest("hex");
}
