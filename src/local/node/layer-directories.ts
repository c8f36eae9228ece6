import { lstat, readdir, rmdir } from "node:fs/promises";
import { basename, join } from "node:path";
import * as z from "zod";
import { RametError } from "../../base/errors.ts";
import type { Log } from "../../base/log.ts";
import { runProgram } from "../../base/run-program.ts";
import { checkpointKind } from "../../api/kinds/checkpoint.ts";
import { sandboxKind } from "../../api/kinds/sandbox.ts";
import { layerIdsOf } from "../../api/state/checkpoint.ts";
import type { KubeClient } from "../../kube/kube-client.ts";
import { coreResources } from "../../kube/resource-ref.ts";
import { succeeds } from "../../store/directory/durable.ts";
import type { Trees } from "../csi/storage/trees.ts";

/** A clone may have begun to use a layer of a checkpoint that was deleted since. */
const youngMilliseconds = 3_600_000;

interface DropTools {
  trees: Pick<Trees, "remove">;
  /** The program `ramet-link`. */
  link: string;
  log: Log;
}

/**
 * Removes the unpacked layers that no checkpoint and no sandbox needs. Cells name them `<checkpoint id>.<digest>`, in a directory of
 * their namespace, and renew the lock file of a layer with each use (src/cell/layers/layer-cache.ts). They can write anything there:
 * what cannot be removed is logged, and the other layers are removed. Removes the empty directories of deleted namespaces as well.
 * @returns the removed directories
 */
export async function dropLayers(directory: string, tools: DropTools, client: KubeClient): Promise<string[]> {
  const needed = await neededLayers(client);
  const dropped: string[] = [];
  const entries = await readdir(directory, { withFileTypes: true });
  for (const { name: namespace } of entries.filter((entry) => entry.isDirectory())) {
    const names = await readdir(join(directory, namespace));
    for (const layer of new Set(names.map((name) => name.replace(/(\.draft)?\.(lock|draft|dropped)$/, "")))) {
      const path = join(directory, namespace, layer);
      const id = layer.slice(0, layer.lastIndexOf("."));
      // The names "", "." and ".." lead out of the directory.
      if (basename(path) !== layer || needed.has(`${namespace}/${id}`) || (await isYoung(path, client))) continue;
      try {
        if (await drop(path, client, tools)) dropped.push(path);
      } catch (error) {
        tools.log.warn({ layer: path, error: RametError.from(error).message }, "removing an unneeded layer failed");
      }
    }
  }
  return [...dropped, ...(await dropNamespaces(directory, client))];
}

async function dropNamespaces(directory: string, client: KubeClient): Promise<string[]> {
  const { items } = await client.resource(coreResources.namespaces).list();
  const existing = new Set(items.map(({ metadata }) => metadata.name));
  const dropped: string[] = [];
  for (const entry of await readdir(directory, { withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name);
    if (!entry.isDirectory() || existing.has(entry.name) || (await wasUsed(path, client))) continue;
    if (await succeeds(rmdir(path), "ENOTEMPTY", "ENOENT")) dropped.push(path);
  }
  return dropped;
}

/** A clone can begin to use the layer at any time until it is in its other directory. @returns false if one has, or unpacks it */
async function drop(layer: string, { clock }: KubeClient, { trees, link }: DropTools): Promise<boolean> {
  const dropped = [`${layer}.dropped`, `${layer}.draft.dropped`];
  // Of a process that was ended.
  for (const path of dropped) await trees.remove(path);
  const args = ["layer", "--drop", layer, `${clock.now().getTime() - youngMilliseconds}`];
  const { code, stdout, stderr } = await runProgram({ program: link, args, timeoutMilliseconds: 60_000 });
  if (code !== 0) throw new RametError("Internal", `removing a layer failed: ${stdout}${stderr}`);
  for (const path of dropped) await trees.remove(path);
  return Dropped.parse(JSON.parse(stdout)).dropped;
}

const Dropped = z.object({ dropped: z.boolean() });

const isYoung = (layer: string, client: KubeClient): Promise<boolean> => wasUsed(`${layer}.lock`, client);

async function wasUsed(path: string, { clock }: KubeClient): Promise<boolean> {
  const used = await lstat(path).catch(() => undefined);
  return used !== undefined && clock.now().getTime() - used.mtimeMs < youngMilliseconds;
}

async function neededLayers(client: KubeClient): Promise<Set<string>> {
  const [checkpoints, sandboxes] = await Promise.all([client.of(checkpointKind).list(), client.of(sandboxKind).list()]);
  return new Set([
    ...checkpoints.items.flatMap((one) => layerIdsOf(one).map((id) => `${one.metadata.namespace}/${id}`)),
    ...sandboxes.items.flatMap(({ metadata, status }) =>
      (status?.ramet?.layers ?? []).map((id) => `${metadata.namespace}/${id}`),
    ),
  ]);
}
