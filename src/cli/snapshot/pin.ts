import { RametError } from "../../base/errors.ts";
import type { NamedSnapshot } from "../../api/kinds/named-snapshot.ts";
import { withCluster, type ClusterOptions } from "../cluster/cluster.ts";
import { exitCodes } from "../exit-codes.ts";
import { printLine, type Io } from "../io.ts";

export interface PinSnapshotOptions extends ClusterOptions {
  name: string;
  /** `previous`: the kept one before that which serves. `none`: follow the recipe again. */
  version: number | "previous" | "none";
}

/**
 * `ramet snapshot pin`, `unpin` and `rollback`: lets a kept version serve, and has nothing built, until that is taken away.
 * No checkpoint is taken and none removed, so it takes effect at once.
 */
export async function pinSnapshot(io: Io, options: PinSnapshotOptions): Promise<number> {
  const { name, version } = options;
  return withCluster(io, options, async (cluster) => {
    const found = await cluster.get(cluster.snapshots, name, io.signal);
    const pinnedVersion = version === "none" ? null : chosen(found, version);
    // Who changed it meanwhile is asked again.
    const { resourceVersion } = found.metadata;
    const patch = { metadata: { resourceVersion }, spec: { pinnedVersion } };
    await cluster.snapshots.mergePatch(found.metadata, patch, { signal: io.signal });
    const message =
      pinnedVersion === null
        ? `snapshot ${name} follows its recipe again`
        : `snapshot ${name} serves version ${pinnedVersion}; nothing is built until: ramet snapshot unpin ${name}`;
    printLine(io.stdout, message);
    return exitCodes.ok;
  });
}

function chosen({ metadata, status }: NamedSnapshot, version: number | "previous"): number {
  const kept = (status?.versions ?? []).map((one) => one.version);
  const current = status?.version ?? Infinity;
  const found = version === "previous" ? kept.findLast((one) => one < current) : kept.find((one) => one === version);
  if (found !== undefined) return found;
  const what = version === "previous" ? `no version before ${current}` : `no version ${version}`;
  throw new RametError("NotFound", `The snapshot ${metadata.name} keeps ${what}`, {
    hint: `Kept are: ${kept.join(", ") || "none"}`,
  });
}
