import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import { storeCodes, storeReportKeys as keys, storeReportMap } from "../../api/store/store-report.ts";
import { problemOf } from "../../api/state/problem.ts";
import { changeEntries } from "../../backends/kept-secret.ts";
import { RametError } from "../../base/errors.ts";
import type { Log } from "../../base/log.ts";
import type { KubeClient } from "../../kube/kube-client.ts";
import { keyOf } from "../../kube/object.ts";

/**
 * Reports the state of the store in a ConfigMap, for `ramet doctor`: only the controllers and the cells reach the store, and the
 * Checkpoints are too many to be read for it. A report that cannot be written is logged, and written at the next check.
 */
export class StoreReports {
  readonly #client: KubeClient;
  readonly #log: Log;
  /** As JSON. Undefined: not known. */
  #captureProblem: string | undefined;
  #writing: Promise<void> = Promise.resolve();

  private constructor(client: KubeClient, log: Log, captureProblem: string | undefined) {
    this.#client = client;
    this.#log = log;
    this.#captureProblem = captureProblem;
  }

  static async open(client: KubeClient, log: Log, signal: AbortSignal): Promise<StoreReports> {
    const found = await client.configMaps.find(storeReportMap, { signal });
    return new StoreReports(client, log, found?.data[keys.captureProblem]);
  }

  /** Resolves when the result of a check is written. */
  checked({
    problem,
    dataMissing,
  }: {
    problem: RametError | undefined;
    dataMissing: number | undefined;
  }): Promise<void> {
    return this.#write({
      [keys.checkedAt]: this.#client.clock.now().toISOString(),
      [keys.problem]: problem === undefined ? null : JSON.stringify(problemOf(problem)),
      // Without a sweep it is as many as before.
      ...(dataMissing !== undefined && { [keys.dataMissing]: String(dataMissing) }),
    });
  }

  /** Reports the outcome of a capture, if it says something new about the store. */
  captured(checkpoint: Checkpoint, error?: RametError): void {
    if (error === undefined && this.#captureProblem === undefined) return;
    if (error !== undefined && !storeCodes.has(error.code)) return;
    const at = this.#client.clock.now().toISOString();
    const what = `The checkpoint ${keyOf(checkpoint.metadata)} failed at ${at}`;
    this.#captureProblem = error && JSON.stringify(problemOf(error, what));
    void this.#write({ [keys.captureProblem]: this.#captureProblem ?? null });
  }

  /** One after another, so that the last one counts. */
  #write(data: Record<string, string | null>): Promise<void> {
    this.#writing = this.#writing.then(async () => {
      try {
        await changeEntries(this.#client, storeReportMap, data);
      } catch (error) {
        this.#log.warn({ error: RametError.from(error).describe() }, "reporting the state of the store failed");
      }
    });
    return this.#writing;
  }
}
