import { z } from "zod";
import { RametError } from "../../base/errors.ts";
import { labels } from "../../api/names/labels.ts";
import type { NamedSnapshot } from "../../api/kinds/named-snapshot.ts";
import type { KubeClient } from "../../kube/kube-client.ts";
import { ObjectMeta } from "../../kube/object.ts";
import { coreResources } from "../../kube/resource-ref.ts";
import { logKey, logName } from "./log-name.ts";
import { ownerReference } from "./owner-reference.ts";

/**
 * Keeps what a step printed in a ConfigMap of the build, a key for each step: there until its version goes, or the next
 * build of another digest begins. What does not fit any more, the logs of the earliest steps make room for.
 */
export async function keepLog(
  client: KubeClient,
  snapshot: NamedSnapshot,
  { index, digest, text }: { index: number; digest: string; text: string },
): Promise<void> {
  const { name, namespace } = snapshot.metadata;
  const resource = client.resource(coreResources.configMaps, (value) => Logs.parse(value));
  const at = { namespace, name: logName(name, digest) };
  const found = await resource.find(at);
  if (found !== undefined) {
    const data = { ...Object.fromEntries(earliest(found.data ?? {}, text)), [logKey(index)]: text };
    await resource.mergePatch(at, { data });
    return;
  }
  const metadata = { ...at, labels: { [labels.snapshot]: name }, ownerReferences: [ownerReference(snapshot)] };
  try {
    await resource.create({ apiVersion: "v1", kind: "ConfigMap", metadata, data: { [logKey(index)]: text } });
  } catch (error) {
    // A repeat of this very step: its log is kept.
    if (RametError.from(error).code !== "AlreadyExists") throw error;
  }
}

export async function deleteLog(client: KubeClient, snapshot: NamedSnapshot, digest: string): Promise<void> {
  const { name, namespace } = snapshot.metadata;
  await client.resource(coreResources.configMaps).delete({ namespace, name: logName(name, digest) });
}

/** The keys that have to go so that `text` fits, as a merge patch says it. */
function earliest(kept: Readonly<Record<string, string>>, text: string): [string, null][] {
  const entries = Object.entries(kept).sort(([a], [b]) => (a < b ? -1 : 1));
  let over = entries.reduce((sum, [, log]) => sum + sizeOf(log), sizeOf(text)) - mostBytes;
  return entries.flatMap(([key, log]): [string, null][] => {
    if (over <= 0) return [];
    over -= sizeOf(log);
    return [[key, null]];
  });
}

function sizeOf(log: string): number {
  return Buffer.byteLength(log);
}

/** A ConfigMap holds 1 MiB with all that is in it. */
const mostBytes = 900_000;

const Logs = z.looseObject({ metadata: ObjectMeta, data: z.record(z.string(), z.string()).nullish() });
