import { canceled, type Clock, delay, unlessAborted } from "../base/clock.ts";
import { RametError, unlessCode } from "../base/errors.ts";
import { Followers } from "../kube/followers.ts";
import type { ObjectStore } from "../kube/store.ts";
import type { ClientApi } from "./client-api.ts";
import { Slots, takeAll } from "../base/slots.ts";
import type { GatewayMetrics } from "./metrics.ts";
import { Refusal } from "./refusal.ts";
import type { RoutedSandbox } from "./routed-sandbox.ts";
import type { SandboxTokens } from "./sandbox-tokens.ts";

export interface WaitingClient {
  address: string;
  /** Aborts when the client has left. */
  signal: AbortSignal;
}

export interface ServingOptions {
  store: ObjectStore<RoutedSandbox>;
  /** Resumes sandboxes. @default traffic resumes none */
  clientApi?: Pick<ClientApi, "resume"> | undefined;
  sandboxTokens?: Pick<SandboxTokens, "resumeProofOf"> | undefined;
  /** Whether the guest of a sandbox answers now. */
  answers: (sandbox: RoutedSandbox, signal: AbortSignal) => Promise<boolean>;
  metrics: GatewayMetrics;
  clock: Clock;
}

/** Lets requests wait for sandboxes that cannot serve them yet. The bodies of waiting requests are not read. */
export class ServingSandboxes {
  readonly #options: ServingOptions;
  readonly #followers: Followers<RoutedSandbox>;
  readonly #slots = {
    all: new Slots(waitingLimits.all),
    client: new Slots(waitingLimits.client),
    namespace: new Slots(waitingLimits.namespace),
    sandbox: new Slots(waitingLimits.sandbox),
  };
  /** By UID. Concurrent requests share one resume. */
  readonly #resumes = new Map<string, Promise<RoutedSandbox>>();
  readonly #closed = new AbortController();

  constructor(options: ServingOptions) {
    this.#options = options;
    this.#followers = new Followers(options.store, options.clock);
  }

  /** Waits a moment for a sandbox that is not known, because another server can know a new one earlier. */
  async appeared(uid: string, client: WaitingClient): Promise<RoutedSandbox | undefined> {
    if (this.#options.store.isRetired(uid)) return undefined;
    return this.#aMoment(uid, client, (sandbox) => sandbox);
  }

  /**
   * Waits for a sandbox that cannot serve: a moment, because another server can know earlier that it can; until it is resumed, if
   * traffic resumes it and `mayResume` does; and until it serves in its next Pod, if it moves.
   * @returns undefined if it does not serve
   * @throws RametError `Unavailable` if too many requests wait; `Forbidden`; `NotFound`; `Canceled` when the client has left
   */
  async serving(
    sandbox: RoutedSandbox,
    client: WaitingClient,
    mayResume: () => Promise<boolean>,
  ): Promise<RoutedSandbox | undefined> {
    if (sandbox.isMoving) return this.#moved(sandbox, client, await mayResume());
    const { uid } = sandbox.metadata;
    const { clientApi, sandboxTokens } = this.#options;
    const canResume = sandbox.autoResume && clientApi !== undefined && sandboxTokens !== undefined;
    if (!canResume || !isResumable(sandbox) || !(await mayResume())) {
      return this.#aMoment(uid, client, (current) => (current && isServing(current) ? current : undefined));
    }
    const release = this.#takeFor(sandbox);
    const { signal } = client;
    const left = () => canceled("Waiting for the sandbox", signal);
    return unlessAborted(this.#resumed(uid), signal, left).finally(release);
  }

  /**
   * From its capture on, a sandbox answers nothing that it gets, although its status says that it serves.
   * @param isKnown whether the client has a right to the port. Others take no places from those that have
   */
  async #moved(
    sandbox: RoutedSandbox,
    { address, signal }: WaitingClient,
    isKnown: boolean,
  ): Promise<RoutedSandbox | undefined> {
    const { clock, answers } = this.#options;
    const { uid } = sandbox.metadata;
    const release = isKnown ? this.#takeFor(sandbox) : this.#takeMoment(address);
    if (release === undefined) return undefined;
    const end = clock.monotonicMilliseconds() + resumeMilliseconds;
    const aMoment = { what: "Waiting for the sandbox", timeoutMilliseconds: momentMilliseconds, signal };
    try {
      for (let now: RoutedSandbox | undefined = sandbox; now !== undefined; now = this.#followers.current(uid)) {
        if (isServing(now) && (!now.isMoving || (await answers(now, signal)))) return now;
        // After the time, it may still serve: its guest is slow, or its capture waits.
        if (!now.isMoving || clock.monotonicMilliseconds() >= end) return isServing(now) ? now : undefined;
        const { resourceVersion } = now.metadata;
        const change = (next?: RoutedSandbox) =>
          next?.metadata.resourceVersion === resourceVersion ? undefined : true;
        await this.#followers.until(uid, change, aMoment).catch(unlessCode("Timeout"));
      }
      return undefined;
    } finally {
      release();
    }
  }

  close(): void {
    this.#closed.abort();
    this.#followers.close();
  }

  /** @returns undefined after the moment, and without waiting if too many requests do that */
  async #aMoment(
    uid: string,
    { address, signal }: WaitingClient,
    until: (sandbox: RoutedSandbox | undefined) => RoutedSandbox | undefined,
  ): Promise<RoutedSandbox | undefined> {
    const release = this.#takeMoment(address);
    if (release === undefined) return undefined;
    const waiting = { what: "Waiting for the sandbox", timeoutMilliseconds: momentMilliseconds, signal };
    return this.#followers.until(uid, until, waiting).catch(unlessCode("Timeout")).finally(release);
  }

  #takeMoment(address: string): (() => void) | undefined {
    return takeAll([this.#slots.client, address], [this.#slots.all, "moment"]);
  }

  /** @throws RametError `Unavailable` */
  #takeFor({ metadata: { namespace, uid } }: RoutedSandbox): () => void {
    const { all, namespace: ofNamespace, sandbox } = this.#slots;
    const release = takeAll([all, "resume"], [ofNamespace, namespace], [sandbox, uid]);
    if (release !== undefined) return release;
    this.#options.metrics.refused("waiting");
    throw new RametError("Unavailable", "Too many requests wait until the sandbox serves", { retryable: true });
  }

  #resumed(uid: string): Promise<RoutedSandbox> {
    const shared = this.#resumes.get(uid) ?? this.#counted(uid);
    this.#resumes.set(uid, shared);
    return shared;
  }

  async #counted(uid: string): Promise<RoutedSandbox> {
    const { metrics } = this.#options;
    try {
      const sandbox = await this.#resume(uid);
      metrics.resumed("resumed");
      return sandbox;
    } catch (error) {
      metrics.resumed(RametError.from(error).code === "Forbidden" ? "denied" : "failed");
      throw error;
    } finally {
      this.#resumes.delete(uid);
    }
  }

  /** It continues when its clients have left: the sandbox is about to run. */
  async #resume(uid: string): Promise<RoutedSandbox> {
    const { clock } = this.#options;
    const [expired, over] = [new AbortController(), new AbortController()];
    const cancel = clock.schedule(resumeMilliseconds, () => {
      expired.abort();
    });
    const signal = AbortSignal.any([expired.signal, over.signal, this.#closed.signal]);
    // The wait ends when the sandbox serves, also if another request has resumed it.
    const served = this.#untilServing(uid, signal);
    const asked = this.#askUntilResumed(uid, signal);
    try {
      return await Promise.race([served, asked.then(() => served)]);
    } catch (error) {
      const { code, message } = RametError.from(error);
      if (code === "Conflict" || expired.signal.aborted) throw notResumed(expired.signal.aborted ? late : message);
      throw error;
    } finally {
      cancel();
      over.abort();
      await Promise.allSettled([served, asked]);
    }
  }

  /** Asks again if the client API does not know of the pause yet, or this gateway not of the resume. */
  async #askUntilResumed(uid: string, signal: AbortSignal): Promise<void> {
    const { clock, clientApi, sandboxTokens } = this.#options;
    while (this.#followers.current(uid)?.isPaused === true) {
      const proof = await sandboxTokens?.resumeProofOf(uid);
      if (await clientApi?.resume(uid, proof ?? "", signal)) return;
      await delay(clock, lagMilliseconds, signal);
    }
  }

  #untilServing(uid: string, signal: AbortSignal): Promise<RoutedSandbox> {
    const check = (sandbox: RoutedSandbox | undefined): RoutedSandbox | undefined => {
      if (sandbox === undefined) throw new RametError("NotFound", `The sandbox ${uid} was not found: it was deleted`);
      if (sandbox.hasEnded)
        throw new RametError("SandboxNotReady", `The sandbox ${uid} was not resumed: its phase is ${sandbox.phase}`);
      return isServing(sandbox) ? sandbox : undefined;
    };
    return this.#followers.until(uid, check, { what: late, timeoutMilliseconds: resumeMilliseconds, signal });
  }
}

/** Whether requests can be proxied. One that traffic resumes is not used while it is being paused: it would cut the request. */
export function isServing({ isReady, ip, isPaused, autoResume }: RoutedSandbox): boolean {
  return isReady && ip !== undefined && !(isPaused && autoResume);
}

/** Whether the sandbox is paused, is being paused, or is being resumed. */
function isResumable({ isPaused, phase }: RoutedSandbox): boolean {
  return isPaused || phase === "Resuming" || phase === "Paused";
}

/** The status is E2B's for a sandbox that is in transition for too long. */
function notResumed(why: string): Refusal {
  return new Refusal("Conflict", `The sandbox was not resumed: ${why}`, { status: 409, retryable: true });
}

/** E2B's limit. */
const resumeMilliseconds = 60_000;
const late = "it took more than 60 s";
/** Much longer than a watch lags behind on an idle machine. */
const momentMilliseconds = 1_000;
const lagMilliseconds = 50;

/** How many requests wait at a time. No client, namespace or sandbox can take all of the places. */
const waitingLimits = { all: 2_000, client: 100, namespace: 1_000, sandbox: 250 };
