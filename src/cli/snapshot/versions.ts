import type { SnapshotVersion } from "../../api/kinds/named-snapshot-status.ts";
import { NamedSnapshot } from "../../api/kinds/named-snapshot.ts";
import { RametError } from "../../base/errors.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { type Io, printLine, writeAll } from "../io.ts";
import { age, size, table } from "../output/render.ts";
import { readStorage } from "../object/user-kind.ts";
import type { Storage } from "../../api/state/storage.ts";
import { seconds } from "./step-printer.ts";
import type { KubeObject } from "../../kube/object.ts";
import { getObjects, type GetOptions } from "../object/get.ts";

export interface PinSnapshotOptions {
  name: string;
  /** `previous`: the kept version before the current one. `none`: remove the pin. */
  version: number | "previous" | "none";
}

/**
 * `ramet snapshot pin`, `unpin` and `rollback`: pins a kept version, so that it is current and nothing is built, or removes the
 * pin. Creates and deletes no checkpoint, so it takes effect immediately.
 */
export async function pinSnapshot(io: Io, cluster: Cluster, options: PinSnapshotOptions): Promise<void> {
  const { name, version } = options;
  const found = await cluster.get(cluster.snapshots, name);
  const pinnedVersion = version === "none" ? null : chosen(found, version);
  // Retry if the object was changed meanwhile.
  const { resourceVersion } = found.metadata;
  const patch = { metadata: { resourceVersion }, spec: { pinnedVersion } };
  await cluster.snapshots.mergePatch(found.metadata, patch, { signal: io.signal });
  const message =
    pinnedVersion === null
      ? `snapshot ${name} builds its recipe again`
      : `snapshot ${name} is pinned to version ${pinnedVersion}; nothing is built until: ramet snapshot unpin ${name}`;
  printLine(io.stdout, message);
}

function chosen({ metadata, status }: NamedSnapshot, version: number | "previous"): number {
  const kept = (status?.versions ?? []).map((one) => one.version);
  const current = status?.version ?? Infinity;
  const found = version === "previous" ? kept.findLast((one) => one < current) : kept.find((one) => one === version);
  if (found !== undefined) return found;
  const { name, namespace } = metadata;
  if (kept.length === 0) {
    throw new RametError("NotFound", `The snapshot ${name} has no version: it has not been built yet`, {
      hint: `See why with: ramet snapshot get ${name} -n ${namespace}`,
    });
  }
  const what = version === "previous" ? `no version before ${current}` : `no version ${version}`;
  throw new RametError("NotFound", `The snapshot ${name} keeps ${what}`, {
    hint: `Choose one of the kept versions: ${kept.join(", ")}`,
  });
}

/** `ramet snapshot history`: lists the kept versions, newest first; `*` marks the current one. */
export async function snapshotHistory(io: Io, cluster: Cluster, { name }: { name: string }): Promise<void> {
  const { status } = await cluster.get(cluster.snapshots, name);
  const now = io.clock.now();
  const storage = await readStorage(cluster, cluster.namespace);
  const rows = (status?.versions ?? [])
    .toReversed()
    .map((version) => rowOf(version, { current: status?.version, storage, now }));
  const headings = [
    "VERSION",
    "DIGEST",
    "CHECKPOINT",
    "SIZE",
    "UNIQUE",
    "SHARED",
    "LAYERS",
    "BUILD",
    "FROM",
    "SECRETS",
    "AGE",
  ];
  await writeAll(io.stdout, table(headings, rows));
}

function rowOf(
  one: SnapshotVersion,
  { current, storage, now }: { current: number | undefined; storage: Storage | undefined; now: Date },
): string[] {
  const checkpoint = storage?.checkpoints.find(({ metadata }) => metadata.name === one.checkpointName);
  const bytes = checkpoint && storage?.bytesOf([checkpoint]);
  return [
    `${one.version}${one.version === current ? " *" : ""}`,
    one.digest.slice(0, "sha256:".length + 12),
    one.checkpointId,
    size(one.sizeBytes),
    size(bytes?.uniqueBytes),
    size(bytes?.sharedBytes),
    one.layers === undefined ? "" : one.layers ? "yes" : "no",
    seconds(one.buildMilliseconds),
    one.parent ?? "",
    one.secrets?.join(",") ?? "",
    age(one.createdAt, now),
  ];
}

/** `ramet snapshot get`: `get` as of every kind, in a table followed by the steps of the latest build. */
export function getSnapshots(io: Io, cluster: Cluster, options: Omit<GetOptions, "kind">): Promise<void> {
  return getObjects(io, cluster, { ...options, kind: "snapshot" }, stepsTable);
}

/** The steps of the latest build of each snapshot, with the snapshot's name if there are several. Empty without steps. */
function stepsTable(snapshots: readonly KubeObject[]): string {
  const withName = snapshots.length > 1;
  const rows = snapshots.flatMap((snapshot) =>
    stepsOf(snapshot).map((cells) => (withName ? [snapshot.metadata.name, ...cells] : cells)),
  );
  if (rows.length === 0) return "";
  const headings = ["STEP", "ACTION", "STATE", "DURATION", "CACHED"];
  return `\n${table(withName ? ["NAME", ...headings] : headings, rows)}`;
}

function stepsOf(snapshot: KubeObject): string[][] {
  const steps = NamedSnapshot.safeParse(snapshot).data?.status?.steps ?? [];
  return steps.map(({ step, state, milliseconds, cached }, index) => [
    `${index + 1}`,
    step,
    state,
    seconds(milliseconds),
    cached ? "yes" : "no",
  ]);
}
