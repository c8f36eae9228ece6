import { RametError } from "../../base/errors.ts";
import { isAborted } from "../../base/clock.ts";
import { EventRecorder, type Transition } from "../../kube/events.ts";
import type { KubeClient } from "../../kube/kube-client.ts";
import { type Preparation, preparationAnnotation, readPreparation } from "../../kube/volumes/preparation.ts";
import { volumeResources } from "../../kube/volumes/volumes.ts";
import { driverName } from "../csi/unary.ts";
import { acquirePinned } from "../tools/acquire-tools.ts";
import { pinnedSnapshotProgram, snapshotProgramNames } from "../volumes/snapshot-programs.ts";
import { pauseAfterFailure } from "./part.ts";
import type { ClusterPartsOptions } from "./parts.ts";

/** What preparing needs of the options of the cluster's parts, and how it acquires a program. */
export interface PrepareSnapshotsOptions extends Pick<ClusterPartsOptions, "clock" | "onChange"> {
  acquire?: typeof acquirePinned;
}

/** Programs in the cache are found within this time, and need no report. */
const unreportedMilliseconds = 1_000;

/**
 * Builds the programs of VolumeSnapshots, one after another and with low priority, because the first snapshot of a machine would
 * otherwise wait for them. The status of the cluster and an annotation of its CSIDriver report the build. A failed build is
 * repeated. Resolves when all programs are available, or when `signal` aborts. A build that is killed with the cluster starts again with it.
 */
export async function prepareSnapshots(
  client: KubeClient,
  { clock, onChange, acquire = acquirePinned }: PrepareSnapshotsOptions,
  signal: AbortSignal,
): Promise<void> {
  const since = clock.now().toISOString();
  const earlier = await readPreparation(client);
  const report = new PreparationReport(client);
  let isReported = earlier !== undefined && earlier.until === undefined;
  let failingSince: string | undefined;
  for (let failures = 0, next = 0; next < snapshotProgramNames.length && !signal.aborted;) {
    const name = snapshotProgramNames[next];
    if (name === undefined) break;
    let message = "";
    const show = (): void => {
      isReported = true;
      onChange({ name, state: "preparing", restarts: 0, since, message });
    };
    const unschedule = clock.schedule(unreportedMilliseconds, () => {
      show();
      void report.started(since);
    });
    const progress = (line: string): void => {
      message = line;
      if (isReported) show();
    };
    try {
      const shared = { all: snapshotProgramNames, lowPriority: true, clock, signal, progress };
      await acquire(pinnedSnapshotProgram, { names: [name], ...shared }).finally(unschedule);
      if (isReported) onChange({ name, state: "waiting", restarts: 0 });
      failingSince = undefined;
      next += 1;
    } catch (thrown) {
      if (isAborted(signal)) break;
      const error = RametError.from(thrown);
      message = error.describe();
      show();
      failingSince ??= clock.now().toISOString();
      await report.failed({ since, failure: error.message, failingSince });
      await pauseAfterFailure(clock, failures, signal);
      failures += 1;
    }
  }
  if (isReported && !isAborted(signal)) await report.ended(since, clock.now().toISOString());
}

/** Writes the preparation to the CSIDriver, and Events about it, one after another: the last report remains. The preparation itself does not depend on them. */
class PreparationReport {
  readonly #client: KubeClient;
  readonly #events: EventRecorder;
  #last = Promise.resolve();

  constructor(client: KubeClient) {
    this.#client = client;
    this.#events = new EventRecorder({ client, reportingController: driverName, reportingInstance: "local" });
  }

  started(since: string): Promise<void> {
    const note = "Preparing the snapshot-controller and csi-snapshotter in the background";
    return this.#write({ since }, { type: "Normal", reason: "PreparingSnapshots", note });
  }

  failed(preparation: Required<Omit<Preparation, "until">>): Promise<void> {
    const note = `Preparing the programs of snapshots failed: ${preparation.failure}`;
    return this.#write(preparation, { type: "Warning", reason: "PreparationFailed", note });
  }

  ended(since: string, until: string): Promise<void> {
    return this.#write(
      { since, until },
      { type: "Normal", reason: "SnapshotsPrepared", note: "Snapshots can be taken" },
    );
  }

  #write(preparation: Preparation, event: Omit<Transition, "action">): Promise<void> {
    this.#last = this.#last.then(() => this.#writeNow(preparation, event));
    return this.#last;
  }

  async #writeNow(preparation: Preparation, event: Omit<Transition, "action">): Promise<void> {
    const annotations = { [preparationAnnotation]: JSON.stringify(preparation) };
    try {
      const drivers = this.#client.resource(volumeResources.drivers);
      const driver = await drivers.mergePatch({ name: driverName }, { metadata: { annotations } });
      this.#events.record(driver, { ...event, action: "Prepare" });
      await this.#events.flush();
    } catch (error) {
      process.stderr.write(`Reporting the preparation of snapshots failed: ${RametError.from(error).message}\n`);
    }
  }
}
