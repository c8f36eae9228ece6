import * as z from "zod";
import { parsedJson } from "../../base/tolerant-parse.ts";
import { CellConfig, type KeySets } from "../../api/wire/cell-api.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { rotationEntry, rotationIn, type RotationState, type WaitingCell } from "../../api/names/key-rotation.ts";
import { type KeyPower, keyPowers } from "../../api/names/system-names.ts";
import type { Pod } from "../../api/schema/pod.ts";
import type { ClusterKeys } from "../../backends/cluster-keys.ts";
import { RotationEntries } from "../../backends/kept-secret.ts";
import { sandboxRef, type SandboxRuntime } from "../../backends/runtime.ts";
import { canonicalJson } from "../../base/canonical-json.ts";
import { type Clock, delay } from "../../base/clock.ts";
import { RametError } from "../../base/errors.ts";
import type { Log } from "../../base/log.ts";
import type { KubeClient } from "../../kube/kube-client.ts";
import { controllerOf } from "../../kube/object.ts";
import { cellRuns, isEnded } from "../cluster/pod-facts.ts";
import type { Informers } from "../cluster/resources.ts";

export interface KeyRotationOptions {
  client: KubeClient;
  keys: ClusterKeys;
  runtime: Pick<SandboxRuntime, "setKeys" | "useKey">;
  informers: Pick<Informers, "pods" | "sandboxes">;
  clock: Clock;
  log: Log;
  /** Between two passes. @default 5000 */
  pauseMilliseconds?: number;
  /** How long cells learn a key at least: a Pod that was requested before may appear for so long. @default 30000 */
  settleMilliseconds?: number;
}

/**
 * Rotates keys on request until `signal` is aborted. Runs in the leader only. Each pass compares the keys that cells should
 * accept with those that they have been given, so a pass after a crash continues where the last one ended, and a cell that was
 * unreachable gets the keys later.
 */
export async function runKeyRotation(options: KeyRotationOptions, signal: AbortSignal): Promise<void> {
  const { clock, log, pauseMilliseconds = 5_000 } = options;
  const rotation = new KeyRotation(options);
  for (;;) {
    try {
      if (await rotation.pass(signal)) continue;
    } catch (thrown) {
      if (signal.aborted) return;
      log.warn({ error: RametError.from(thrown).describe() }, "a rotation of keys waits");
    }
    await delay(clock, pauseMilliseconds, signal).catch(() => undefined);
    if (signal.aborted) return;
  }
}

export class KeyRotation {
  readonly #options: KeyRotationOptions;
  readonly #entries: RotationEntries;
  /** The keys that each cell has confirmed, as canonical JSON, by the UID of its Pod. */
  readonly #confirmed = new Map<string, string>();

  #nextCalls = 0;

  constructor(options: KeyRotationOptions) {
    this.#options = options;
    this.#entries = new RotationEntries(options.client);
  }

  /** Does what can be done now. Returns whether a step has ended, so that the next one can begin. */
  async pass(signal: AbortSignal): Promise<boolean> {
    const data = await this.#entries.read(signal);
    const { keys } = this.#options;
    let hasAdvanced = false;
    for (const power of keyPowers) {
      const { request, state } = rotationIn(data, power);
      if (keys.stepOf(power) !== undefined || request === undefined || state?.request === request) continue;
      await keys.begin(power, signal);
      await this.#write(power, this.#stateOf(power, "adding", { request, waiting: [] }), signal);
    }
    const waiting = await this.#waiting(signal);
    for (const power of keyPowers) {
      if (await this.#advance(power, rotationIn(data, power), { waiting, signal })) hasAdvanced = true;
    }
    return hasAdvanced;
  }

  async #advance(
    power: KeyPower,
    entries: ReturnType<typeof rotationIn>,
    { waiting, signal }: { waiting: readonly WaitingCell[]; signal: AbortSignal },
  ): Promise<boolean> {
    const { keys, runtime, log } = this.#options;
    const step = keys.stepOf(power);
    if (step === undefined) return false;
    const { state, force } = entries;
    const request = requestOf(step, entries);
    const startedAt = state?.request === request ? state.startedAt : undefined;
    const known = { request, waiting, startedAt };
    if ((waiting.length > 0 && force !== request) || (step === "adding" && !this.#isSettled(startedAt))) {
      await this.#write(power, this.#stateOf(power, step, known), signal, state);
      return false;
    }
    if (step === "adding") {
      await keys.advance(power, signal);
      if (power === "cells") runtime.useKey(keys.cellKey);
      await this.#write(power, this.#stateOf(power, "removing", known), signal);
    } else {
      // Its state first: a crash in between repeats this step, and the request is not taken for a new one.
      await this.#write(power, this.#stateOf(power, "done", known), signal);
      await keys.end(power, signal);
      log.info({ power, publicKey: keys.publicKey(power), notReached: waiting.length }, "a key was rotated");
    }
    return true;
  }

  /** Gives these keys to each cell that does not have them. Returns the cells that have not confirmed them. */
  async #tellCells(sets: KeySets, live: readonly Pod[], signal: AbortSignal): Promise<WaitingCell[]> {
    const { sandboxes } = this.#options.informers;
    const wanted = canonicalJson(sets);
    const uids = new Set(live.map(({ metadata }) => metadata.uid));
    for (const uid of this.#confirmed.keys()) if (!uids.has(uid)) this.#confirmed.delete(uid);
    const behind = live.filter((pod) => (this.#confirmed.get(pod.metadata.uid) ?? keysOfPod(pod)) !== wanted);
    const waiting: WaitingCell[] = [];
    const queue = [...behind];
    const tellNext = async (): Promise<void> => {
      for (let pod = queue.shift(); pod !== undefined && !signal.aborted; pod = queue.shift()) {
        const sandbox = sandboxes.store.byUid(controllerOf(pod)?.uid ?? "");
        const why = await this.#tell(sandbox, pod, sets);
        const { namespace, name, uid } = pod.metadata;
        if (why === undefined) this.#confirmed.set(uid, wanted);
        else waiting.push({ namespace, name, why });
      }
    };
    await Promise.all(Array.from({ length: callsAtATime }, tellNext));
    signal.throwIfAborted();
    return waiting;
  }

  /** Outside a rotation, cells that cannot be reached are called once a minute. */
  async #waiting(signal: AbortSignal): Promise<WaitingCell[]> {
    const { clock, keys } = this.#options;
    if (!this.#isRotating && clock.monotonicMilliseconds() < this.#nextCalls) return [];
    const waiting = await this.#tellCells(keys.sets, await this.#livePods(signal), signal);
    if (waiting.length > 0) this.#nextCalls = clock.monotonicMilliseconds() + betweenCallsMilliseconds;
    return waiting;
  }

  get #isRotating(): boolean {
    return keyPowers.some((power) => this.#options.keys.stepOf(power) !== undefined);
  }

  /** In a rotation from the API server, because the cache may lag behind. */
  async #livePods(signal: AbortSignal): Promise<Pod[]> {
    const { pods } = this.#options.informers;
    const all = this.#isRotating ? await pods.listNow(signal) : pods.store.list();
    return all.filter((pod) => !isEnded(pod) && pod.metadata.deletionTimestamp === undefined);
  }

  #isSettled(startedAt: string | undefined): boolean {
    const { clock, settleMilliseconds = 30_000 } = this.#options;
    if (startedAt === undefined) return settleMilliseconds === 0;
    return clock.now().getTime() - new Date(startedAt).getTime() >= settleMilliseconds;
  }

  /** Returns why the cell has not confirmed the keys. */
  async #tell(sandbox: Sandbox | undefined, pod: Pod, sets: KeySets): Promise<string | undefined> {
    if (sandbox === undefined) return "its Sandbox does not exist; the Pod will be deleted";
    if (!cellRuns(pod)) return "its cell has not started";
    try {
      await this.#options.runtime.setKeys(sandboxRef(sandbox, pod), sets);
      return undefined;
    } catch (thrown) {
      return RametError.from(thrown).describe();
    }
  }

  #stateOf(
    power: KeyPower,
    step: RotationState["step"],
    {
      request,
      waiting,
      startedAt,
    }: { request: string; waiting: readonly WaitingCell[]; startedAt?: string | undefined },
  ): RotationState {
    const { keys, clock } = this.#options;
    const now = clock.now().toISOString();
    return {
      request,
      step,
      startedAt: startedAt ?? now,
      ...(step === "done" && { finishedAt: now }),
      publicKey: keys.publicKey(power),
      waitingFor: waiting.slice(0, mostNamed),
      waiting: waiting.length,
    };
  }

  async #write(power: KeyPower, state: RotationState, signal: AbortSignal, before?: RotationState): Promise<void> {
    if (before !== undefined && canonicalJson(before) === canonicalJson(state)) return;
    await this.#entries.write({ [rotationEntry(power, "state")]: JSON.stringify(state) }, signal);
  }
}

/** The request that a step belongs to: a crash can leave the state of the previous one, and users can add another one. */
function requestOf(step: "adding" | "removing", { request = "", state }: ReturnType<typeof rotationIn>): string {
  const isOfThis = state !== undefined && (state.step !== "done" || step === "removing");
  return isOfThis ? state.request : request;
}

const betweenCallsMilliseconds = 60_000;
const callsAtATime = 16;
/** A ConfigMap holds at most 1 MiB. */
const mostNamed = 100;

/** The keys with which a Pod's cell has started, as canonical JSON; undefined if they cannot be read. */
function keysOfPod({ spec }: Pod): string | undefined {
  const text = spec.containers[0]?.env?.find(({ name }) => name === "RAMET_CELL")?.value;
  const started = parsedJson(StartedWith, text);
  if (started === undefined) return undefined;
  const { publicKey, gatewayKey, keySets } = started;
  return canonicalJson(keySets ?? { controllers: [publicKey], gateways: gatewayKey === undefined ? [] : [gatewayKey] });
}

const StartedWith = z.looseObject(CellConfig.pick({ publicKey: true, gatewayKey: true, keySets: true }).shape);
