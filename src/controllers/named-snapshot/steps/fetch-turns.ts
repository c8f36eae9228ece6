import type { Readable } from "node:stream";
import { annotations } from "../../../api/names/labels.ts";
import { describeQuota } from "../../../api/quota/namespace-quota.ts";
import type { Clock } from "../../../base/clock.ts";
import { RametError } from "../../../base/errors.ts";
import { FairTurns } from "../../../base/fair-turns.ts";
import { within } from "../../../base/within.ts";
import type { NamespaceQuotas } from "../../cluster/resources.ts";
import { type PublicFetch, fetchContent } from "./fetch-content.ts";

export interface FetchTurnsOptions {
  fetch: PublicFetch;
  quotas: Pick<NamespaceQuotas, "of">;
  clock: Clock;
}

export interface FetchInTurn {
  namespace: string;
  url: string;
  sha256: string;
  /** Identifies the step. */
  attempt: string;
  /** Called when the step begins and ends to wait. */
  onWait: () => void;
  signal: AbortSignal;
}

/**
 * Fetches the files of `copy` steps in turns between namespaces. Each file is in the controllers' temporary directory from the
 * first byte until the guest has it, and both ends can be slow on purpose, so a turn has a time limit for each.
 */
export class FetchTurns {
  readonly #options: FetchTurnsOptions;
  readonly #turns: FairTurns;
  readonly #waiting = new Set<string>();

  constructor(options: FetchTurnsOptions) {
    this.#options = options;
    this.#turns = new FairTurns(mostFetches, (namespace) => this.#limitOf(namespace));
  }

  /** @throws RametError as {@link fetchContent}; `Timeout` */
  fetch(request: FetchInTurn): Promise<Readable> {
    const { namespace, attempt, onWait, signal } = request;
    const fetched = Promise.withResolvers<Readable>();
    const work = async (): Promise<void> => {
      if (this.#waiting.delete(attempt)) onWait();
      const content = await this.#fetchNow(request);
      fetched.resolve(content);
      await this.#untilClosed(content, request);
    };
    const wait = (): void => {
      this.#waiting.add(attempt);
      onWait();
    };
    this.#turns.run(namespace, work, signal, wait).catch((error: unknown) => {
      this.#waiting.delete(attempt);
      fetched.reject(RametError.from(error));
    });
    return fetched.promise;
  }

  /** Why a step waits, or undefined if it does not. */
  whyWaiting(namespace: string, attempt: string): string | undefined {
    if (!this.#waiting.has(attempt)) return undefined;
    const quota = this.#options.quotas.of(namespace);
    if ("problem" in quota) return `waits: ${quota.problem.describe()}`;
    const limit = quota.fetches;
    const used = this.#turns.runningOf(namespace);
    if (used < limit) return `waits for its turn: the controllers fetch at most ${mostFetches} files concurrently`;
    const exhausted = { quota: "fetches", namespace, limit, used, remedy: "" } as const;
    return `waits for another fetch: ${describeQuota(exhausted)}; an administrator can raise fetches in the annotation ${annotations.quota} of the namespace`;
  }

  /** Starts what a changed quota allows. */
  quotaChanged(): void {
    this.#turns.limitChanged();
  }

  #limitOf(namespace: string): number {
    const quota = this.#options.quotas.of(namespace);
    return "problem" in quota ? 0 : quota.fetches;
  }

  #fetchNow({ url, sha256, signal }: FetchInTurn): Promise<Readable> {
    const { clock, fetch } = this.#options;
    const hint = "Use a faster server, or download the file in a run step inside the sandbox";
    const deadline = { clock, milliseconds: turnMilliseconds, what: `Fetching ${url}`, hint, signal };
    return within(deadline, (either) => fetchContent(fetch, { url, sha256, signal: either }));
  }

  #untilClosed(content: Readable, { url }: FetchInTurn): Promise<void> {
    return new Promise((resolve) => {
      const late = new RametError("Timeout", `The sandbox did not accept ${url} within ${turnMilliseconds / 1000} s`);
      const cancel = this.#options.clock.schedule(turnMilliseconds, () => content.destroy(late));
      // The reader of the content reports it; if there is none, nobody needs to know.
      content.on("error", () => undefined);
      content.once("close", () => {
        cancel();
        resolve();
      });
    });
  }
}

/** The files of all fetches, each at most 1 GiB, must fit into the controllers' temporary directory. */
const mostFetches = 8;

/** 1 GiB at 2 MiB a second. */
const turnMilliseconds = 600_000;
