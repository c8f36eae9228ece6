import { RametError } from "../../base/errors.ts";
import type { NamedSnapshot } from "../../api/kinds/named-snapshot.ts";
import { builderName, stepTag } from "../../controllers/named-snapshot/names.ts";
import { delay } from "../../base/clock.ts";
import { withGuest } from "../cluster/cell-access.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { isBrokenPipe, printLine, writeAll, type Io } from "../io.ts";

export interface RunningStep {
  snapshot: NamedSnapshot;
  index: number;
  /** The step's. */
  digest: string;
  /** Called before the first output. */
  begin: () => void;
  /** By the latest state that was seen. */
  isRunning: () => boolean;
  signal: AbortSignal;
}

/**
 * Prints what a `run` step prints, from its builder's guest, to the step's end. Answers whether that was all of it: without the
 * right to enter sandboxes, or when the connection breaks, what the step printed is told when it has ended.
 */
export async function printWhileRunning(io: Io, cluster: Cluster, step: RunningStep): Promise<boolean> {
  try {
    return await follow(io, cluster, step);
  } catch (thrown) {
    if (step.signal.aborted || isBrokenPipe(thrown)) throw thrown;
    const { message } = RametError.from(thrown);
    if (step.isRunning()) {
      printLine(io.stderr, `What step ${step.index + 1} prints is shown when it has ended: ${message}`);
    }
    return false;
  }
}

async function follow(io: Io, cluster: Cluster, step: RunningStep): Promise<boolean> {
  const { snapshot, signal } = step;
  const build = snapshot.status?.build;
  if (build === undefined) return false;
  const builder = await cluster.get(cluster.sandboxes, builderName(snapshot.metadata.name, build), signal);
  return withGuest(cluster, builder, { signal }, async (guest) => {
    while (step.isRunning()) {
      try {
        return await printAll(io, guest.connect({ tag: stepTag(step.index, step.digest) }, signal), step);
      } catch (error) {
        // It is written that the step runs before it is begun.
        if (RametError.from(error).code !== "NotFound") throw error;
        await delay(io.clock, pauseMilliseconds, signal);
      }
    }
    return false;
  });
}

type Events = ReturnType<Parameters<Parameters<typeof withGuest>[3]>[0]["connect"]>;

async function printAll(io: Io, events: Events, { begin }: RunningStep): Promise<boolean> {
  let hasBegun = false;
  for await (const event of events) {
    if (event.type === "end") return event.missedBytes === 0;
    if (event.type !== "data") continue;
    if (!hasBegun) begin();
    hasBegun = true;
    await writeAll(io.stdout, event.data);
  }
  return false;
}

const pauseMilliseconds = 100;
