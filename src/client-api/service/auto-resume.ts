import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { annotations } from "../../api/names/labels.ts";
import { parseDuration } from "../../base/duration.ts";
import { RametError, resultOr } from "../../base/errors.ts";
import { pauseFailure } from "../../api/state/sandbox.ts";
import type { Change } from "../../operations/objects.ts";
import { resumeChange } from "../../operations/pause.ts";
import { unknown, isForClients } from "./find-sandbox.ts";
import { changeNewest, currentState, untilPaused } from "./lifecycle.ts";
import type { ServiceParts } from "./parts.ts";
import { endAfter, timersFor } from "./create-sandbox.ts";

/**
 * The least time that a resume by traffic gives, so that requests of strangers do not pause and resume a sandbox every second.
 * (Source: e2b-dev/infra at 54693ff3.)
 */
export const leastAutoResumeSeconds = 300;

/** How long a pause in progress is waited for. Gateways wait a little longer. */
const timeoutMilliseconds = 50_000;
/** Longer than a watch lags behind. */
const lagMilliseconds = 1_000;

/** Resumes sandboxes for which traffic has arrived. Requests for the same sandbox share one resume. */
export class AutoResumes {
  readonly #parts: ServiceParts;
  readonly #longestMilliseconds: number;
  /** By UID. */
  readonly #underWay = new Map<string, Promise<boolean>>();
  readonly #never = new AbortController().signal;

  constructor(parts: ServiceParts, maxLifeSeconds: number) {
    this.#parts = parts;
    this.#longestMilliseconds = maxLifeSeconds * 1000;
  }

  /**
   * Resolves when the sandbox is being resumed, or runs as far as this server knows.
   * @returns whether it was resumed by this or a concurrent call
   * @throws RametError `NotFound`; `Forbidden` if traffic does not resume it; `Conflict` if its pause takes too long
   */
  resume(uid: string): Promise<boolean> {
    const shared =
      this.#underWay.get(uid) ??
      this.#resume(uid).finally(() => {
        this.#underWay.delete(uid);
      });
    this.#underWay.set(uid, shared);
    return shared;
  }

  async #resume(uid: string): Promise<boolean> {
    const found = await this.#find(uid);
    const resumed = await changeNewest(this.#parts, found, (sandbox) => this.#change(sandbox)).catch(
      (error: unknown) => {
        throw RametError.from(error).code === "NotFound" ? unknown(uid) : error;
      },
    );
    if (resumed !== undefined) return true;
    if (currentState(this.#parts, found) !== "pausing") return false;
    await this.#untilPaused(found);
    return this.#resume(uid);
  }

  /** A gateway can know a sandbox before this server does. */
  #find(uid: string): Promise<Sandbox> {
    const waiting = { what: "Waiting for the watch", timeoutMilliseconds: lagMilliseconds, signal: this.#never };
    return this.#parts.sandboxes
      .until(uid, (sandbox) => sandbox, waiting)
      .catch((error: unknown) => {
        throw RametError.from(error).code === "Timeout" ? unknown(uid) : error;
      });
  }

  /** Undefined: the sandbox is not paused. @throws RametError `NotFound` or `Forbidden` */
  #change(sandbox: Sandbox): Change | undefined {
    checkAllowed(sandbox);
    const state = currentState(this.#parts, sandbox);
    if (state === "killing" || state === "ended") throw unknown(sandbox.metadata.uid);
    if (state !== "paused") return undefined;
    const end = endAfter(this.#parts, this.#lifeOf(sandbox));
    // Never `kill`: the sandbox of someone who does not use this API must not be deleted because traffic has arrived.
    return resumeChange(sandbox, timersFor("pause", end));
  }

  async #untilPaused(sandbox: Sandbox): Promise<void> {
    try {
      await untilPaused(this.#parts, sandbox, { timeoutMilliseconds, signal: this.#never });
    } catch (error) {
      const { code, message } = RametError.from(error);
      if (code === "Timeout") throw new RametError("Conflict", `${message}, so it cannot be resumed`, { cause: error });
      // A failed pause leaves it running, and what follows takes back the request to pause.
      const current = this.#parts.sandboxes.current(sandbox.metadata.uid);
      if (current === undefined || pauseFailure(current) === undefined) throw error;
    }
  }

  /** Users can write the annotation. */
  #lifeOf({ metadata }: Sandbox): number {
    const least = leastAutoResumeSeconds * 1000;
    const given = resultOr(() => parseDuration(metadata.annotations?.[annotations.autoResume] ?? ""), least);
    return Math.min(Math.max(given, least), this.#longestMilliseconds);
  }
}

/** @throws RametError `NotFound` or `Forbidden` */
function checkAllowed(sandbox: Sandbox): void {
  const { annotations: given = {}, uid } = sandbox.metadata;
  if (!isForClients(sandbox)) throw unknown(uid);
  if (given[annotations.autoResume] === undefined) {
    throw new RametError("Forbidden", `Traffic does not resume the sandbox ${uid}: it was not created with autoResume`);
  }
  // Its processes were lost, which a client must know.
  if (sandbox.spec.paused !== true || given[annotations.contentsAfterPause] === undefined) return;
  throw new RametError("Forbidden", `Traffic does not resume the sandbox ${uid}: it was paused without its memory`, {
    hint: "Resume it with connect",
  });
}
