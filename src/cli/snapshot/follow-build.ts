import { RametError } from "../../base/errors.ts";
import type { NamedSnapshot } from "../../api/kinds/named-snapshot.ts";
import { waitUntil } from "../../kube/wait-until.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { exitCodes } from "../exit-codes.ts";
import type { Io } from "../io.ts";
import { reportFailure } from "../report-error.ts";
import { wishStays } from "../wait/request-stays.ts";
import { StepTeller } from "./step-printer.ts";
import { describeSnapshot, hasEnded, settledBuild } from "./until-built.ts";

/**
 * `ramet snapshot logs --follow`: what the steps print, from the first step of the latest build on, until it has ended. The
 * exit code says how it did; a build that has ended before is told whole.
 *
 * @throws RametError `Canceled`
 */
export async function followBuild(
  io: Io,
  cluster: Cluster,
  { snapshot, step }: { snapshot: NamedSnapshot; step: number | undefined },
): Promise<number> {
  const { name, generation } = snapshot.metadata;
  const broken = new AbortController();
  const signal = AbortSignal.any([io.signal, broken.signal]);
  const teller = new StepTeller({ io, cluster, step, signal });
  let last: NamedSnapshot | undefined = snapshot;
  try {
    await waitUntil({
      ...{ resource: cluster.snapshots, from: snapshot, timeoutMilliseconds: Infinity, signal },
      until: (seen) => seen === undefined || hasEnded(seen, generation),
      onState: (seen) => {
        last = seen;
        // Until the controller has seen this generation, the status tells of the build before it.
        if (seen !== undefined && (seen.status?.observedGeneration ?? 0) >= (generation ?? 0)) {
          teller.see(seen).catch((error: unknown) => {
            broken.abort(error);
          });
        }
      },
    });
    await teller.toldAll();
  } catch (error) {
    if (broken.signal.aborted) throw broken.signal.reason;
    const state = describeSnapshot(last);
    throw wishStays(error, { what: `the build of ${name}`, state, look: `ramet snapshot get ${name}` });
  }
  const settled = settledBuild(name, last);
  return "failure" in settled ? reportFailure(io, RametError.from(settled.failure)) : exitCodes.ok;
}
