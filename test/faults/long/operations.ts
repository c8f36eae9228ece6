import { annotations, labels } from "../../../src/api/names/labels.ts";
import { rollbackRequest } from "../../../src/api/names/rollback-request.ts";
import type { Checkpoint } from "../../../src/api/kinds/checkpoint.ts";
import type { Sandbox } from "../../../src/api/kinds/sandbox.ts";
import { findCondition } from "../../../src/kube/conditions.ts";
import { namespace } from "../../bench/local-cluster.ts";
import { firstAnswer } from "../../bench/workload.ts";
import { cloneRequest, snapshotRequest } from "../controller-requests.ts";
import type { Entry } from "./ledger.ts";
import type { Operation, Severity } from "./plan.ts";
import { continues } from "./survival.ts";
import { isReady, type LongWorld } from "./world.ts";

/** A sandbox whose next entry is known, and one checkpoint of it. */
export interface Lane {
  source: Sandbox;
  last: Entry;
  base: Checkpoint;
  /** The entry before the checkpoint. */
  baseEntry: Entry;
}

export interface Attempt {
  world: LongWorld;
  lane: Lane;
  /** Unique in the cluster. */
  name: string;
  /** Called when the request is in the API server, with a function that names the sandbox that a fault hits. */
  onRequested: (victim: () => Promise<string>) => void;
}

export interface Outcome {
  succeeded: boolean;
  /** The reason that the user sees. */
  message: string;
  /** Checks what has succeeded, when no fault is active any more. @returns what is wrong */
  verify: (severity: Severity) => Promise<string[]>;
}

/** Requests the operation, and waits until it has succeeded or failed. @throws Error if it does neither */
export function perform(operation: Operation, attempt: Attempt): Promise<Outcome> {
  return performers[operation](attempt);
}

const performers: Record<Operation, (attempt: Attempt) => Promise<Outcome>> = {
  checkpoint: async ({ world, lane, name, onRequested }) => {
    const before = lane.last;
    const requested = await world.requestCheckpoint(name, lane.source.metadata.name);
    onRequested(() => Promise.resolve(lane.source.metadata.name));
    const done = await world.untilFinished(requested);
    const succeeded = done.status?.phase === "Succeeded";
    return {
      succeeded,
      message: done.status?.message ?? "",
      verify: async () => {
        const wrong = succeeded ? await cloneIsWrong(world, `${name}-proof`, done, before) : [];
        await world.remove(world.cluster.checkpoints, done);
        return wrong;
      },
    };
  },

  clone: async ({ world, lane, name, onRequested }) => {
    const requested = await world.requestSandbox(name, lane.base.status?.checkpointId);
    onRequested(() => Promise.resolve(name));
    const clone = await world.untilReady(requested);
    return {
      succeeded: isReady(clone),
      message: clone.status?.message ?? "",
      verify: async (severity) => {
        // A deadly fault may have hit it after it was Ready.
        const found = isReady(clone) ? await continues(world, clone, lane.baseEntry, severity) : { wrong: [] };
        await world.remove(world.cluster.sandboxes, clone);
        return found.wrong;
      },
    };
  },

  pause: async ({ world, lane, onRequested }) => {
    const { sandboxes } = world.cluster;
    const set = (paused: boolean): Promise<Sandbox> =>
      world.repeat(() => sandboxes.mergePatch(lane.source.metadata, { spec: { paused } }));
    const requested = await set(true);
    onRequested(() => Promise.resolve(lane.source.metadata.name));
    const paused = await world.until(sandboxes, requested, ({ status }) => {
      const failed = findCondition(status?.conditions, "SandboxPaused")?.reason === "CheckpointFailed";
      return failed || ["Paused", "Failed"].includes(status?.phase ?? "");
    });
    const succeeded = paused.status?.phase === "Paused";
    const resumed = await set(false);
    const { generation } = resumed.metadata;
    const done = await world.until(sandboxes, resumed, (seen) => {
      const isObserved = (seen.status?.observedGeneration ?? 0) >= (generation ?? 0);
      return seen.status?.phase === "Failed" || (isObserved && isReady(seen));
    });
    const message = findCondition(paused.status?.conditions, "SandboxPaused")?.message ?? "";
    return { succeeded: succeeded && isReady(done), message: message || (done.status?.message ?? ""), verify: nothing };
  },

  rollback: async ({ world, lane, name, onRequested }) => {
    const { sandboxes } = world.cluster;
    const requested = await world.repeat(() =>
      sandboxes.mergePatch(lane.source.metadata, {
        metadata: {
          annotations: {
            [annotations.rollbackTo]: lane.base.status?.checkpointId,
            [annotations.rollbackRequest]: name,
          },
        },
      }),
    );
    onRequested(() => Promise.resolve(lane.source.metadata.name));
    const digest = rollbackRequest(requested)?.digest;
    // A rollback also revives a sandbox that has failed.
    const done = await world.until(sandboxes, requested, ({ status }) => {
      const { request, checkpointId } = status?.ramet?.rollback ?? {};
      return request === digest && checkpointId === undefined;
    });
    const condition = findCondition(done.status?.conditions, "RolledBack");
    const succeeded = condition?.status === "True";
    if (succeeded) lane.last = lane.baseEntry;
    return { succeeded, message: condition?.message ?? "", verify: nothing };
  },

  delete: async ({ world, lane, name, onRequested }) => {
    const doomed = await world.untilFinished(await world.requestCheckpoint(name, lane.source.metadata.name));
    // The faults of other operations may hit this one.
    if (doomed.status?.phase !== "Succeeded")
      return { succeeded: false, message: doomed.status?.message ?? "", verify: nothing };
    onRequested(() => Promise.resolve(lane.source.metadata.name));
    await world.remove(world.cluster.checkpoints, doomed);
    const { checkpointId = "" } = doomed.status;
    return {
      succeeded: true,
      message: "",
      verify: async () => {
        const kept = (await world.stored()).includes(checkpointId);
        const wrong = await cloneIsWrong(world, `${name}-proof`, lane.base, lane.baseEntry);
        return kept ? [`the store still has the deleted checkpoint ${name} (${checkpointId})`, ...wrong] : wrong;
      },
    };
  },

  snapshot: async ({ world, name, onRequested }) => {
    const { snapshots, sandboxes } = world.cluster;
    const requested = await world.create(snapshots, snapshotRequest(name, "base"));
    onRequested(async () => {
      const { items } = await world.repeat(() => sandboxes.list({ namespace }));
      const own = ({ metadata }: Sandbox): boolean => metadata.labels?.[labels.snapshot] === name;
      return items.find(own)?.metadata.name ?? "";
    });
    const done = await world.until(snapshots, requested, ({ status }) => status?.build?.endedAt !== undefined);
    const succeeded = done.status?.version === 1;
    return {
      succeeded,
      message: done.status?.build?.failure === undefined ? "" : JSON.stringify(done.status.build.failure),
      verify: async () => {
        const wrong: string[] = [];
        if (succeeded) {
          const clone = await world.untilReady(await world.create(sandboxes, cloneRequest(`${name}-proof`, name)));
          const ip = clone.status?.sandboxIp ?? "";
          const ledger = isReady(clone) ? await firstAnswer(ip, "/steps") : (clone.status?.message ?? "");
          if (ledger !== "one\ntwo\n") wrong.push(`a clone of ${name}@1 has ${JSON.stringify(ledger)}`);
          await world.remove(sandboxes, clone);
        }
        await world.remove(snapshots, done);
        return wrong;
      },
    };
  },
};

const nothing = (): Promise<string[]> => Promise.resolve([]);

/** Clones the checkpoint, and compares the clone's first entry. */
async function cloneIsWrong(world: LongWorld, name: string, checkpoint: Checkpoint, before: Entry): Promise<string[]> {
  const clone = await world.untilReady(await world.requestSandbox(name, checkpoint.status?.checkpointId));
  const wrong = isReady(clone)
    ? (await continues(world, clone, before, "harmless")).wrong
    : [`${checkpoint.metadata.name} has Succeeded and cannot be cloned: ${clone.status?.message ?? ""}`];
  await world.remove(world.cluster.sandboxes, clone);
  return wrong;
}
