import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import { RametError } from "../../base/errors.ts";
import { standingIn } from "../../controllers/sweep.ts";
import type { SweepReport } from "../../store/checkpoint-store.ts";
import type { Cluster } from "../cluster/cluster.ts";
import type { Io } from "../io.ts";
import type { ClusterStore } from "./open-cluster-store.ts";

export interface SweepStoreOptions {
  dryRun: boolean;
  /** @default all */
  namespace: string | undefined;
  /** As the API had them. */
  checkpoints: readonly Checkpoint[];
}

/** What the store lost or would lose. `why`: it was not looked at, or not to the end, and `failed` says which. */
export type StoreTold = ({ path: string } & SweepReport) | { why: string; failed: boolean };

/** Sweeps the cluster's store as the controller that leads does, or only says what that would remove. */
export async function sweepStore(
  io: Io,
  cluster: Cluster,
  found: ClusterStore,
  { dryRun, namespace, checkpoints }: SweepStoreOptions,
): Promise<StoreTold> {
  if ("why" in found) return { why: found.why, failed: false };
  const known = { store: { list: () => [...checkpoints] }, resource: cluster.checkpoints };
  try {
    const report = await found.store.sweep({
      ...{ standing: standingIn(known, io.signal), olderThanMilliseconds, dryRun, signal: io.signal },
      ...(namespace !== undefined && { namespace }),
    });
    return { path: found.path, ...report };
  } catch (thrown) {
    if (io.signal.aborted) throw thrown;
    return { why: RametError.from(thrown).describe(), failed: true };
  }
}

/** As the controller has it: by then every grant has expired, and every restore has opened its files. */
const olderThanMilliseconds = 3_600_000;
