import { setTimeout as sleep } from "node:timers/promises";
import * as z from "zod";
import type { Identity } from "../../api/cell/cell-api.ts";
import { guestError } from "./guest-error.ts";
import { callGuest, textOf, type GuestDial } from "./guest-http.ts";

export const GuestHealth = z.object({
  pid: z.number().int(),
  /** How often this memory has been given an identity; 0 before the first time. */
  generation: z.number().int().min(0),
  entrypoint: z.object({
    /**
     * `waiting`: it is started when the sandbox has its identity, or soon without; `failed`: it could not be started, and
     * the exit code is 126 or 127.
     */
    state: z.enum(["none", "waiting", "running", "exited", "failed"]),
    exitCode: z.number().int().optional(),
    message: z.string().optional(),
  }),
});
export type GuestHealth = z.infer<typeof GuestHealth>;

export const GuestInitResult = z.object({
  hooks: z.array(
    z.object({
      path: z.string(),
      milliseconds: z.number(),
      /** As a shell has it: 127 for one that could not be started, 137 for one that was killed. */
      exitCode: z.number().int(),
      timedOut: z.boolean().default(false),
      /** The last 4 KiB of what it printed. */
      output: z.string().default(""),
    }),
  ),
  /** What could not be done and does not keep the sandbox from working. */
  warnings: z.array(z.string()).default([]),
});
export type GuestInitResult = z.infer<typeof GuestInitResult>;

export interface GuestInit extends Identity {
  /** Higher than the one before. The same again with the same sandbox gets the same answer and runs nothing. */
  generation: number;
  clone: boolean;
  /** RFC 3339; the guest warns when its clock is far from it. */
  now: string;
  /** For each hook. */
  hookTimeoutMilliseconds: number;
}

const betweenTriesMilliseconds = 200;

/** The guest's control port (49982), which only the cell reaches. */
export class GuestControl {
  readonly #dial: GuestDial;

  constructor(dial: GuestDial) {
    this.#dial = dial;
  }

  health(signal?: AbortSignal): Promise<GuestHealth> {
    return this.#call("asking for the guest's health", { method: "GET", path: "/health", signal }, GuestHealth);
  }

  /**
   * Gives the sandbox its identity; for a clone, answers when its hooks have ended.
   *
   * @throws RametError `Conflict` when that generation was given to another sandbox or a later one was given
   */
  init(wish: GuestInit, signal?: AbortSignal): Promise<GuestInitResult> {
    return this.#call("taking an identity", { method: "POST", path: "/init", body: wish, signal }, GuestInitResult);
  }

  /** Brings the sandbox's files to rest. */
  async quiesce(signal?: AbortSignal): Promise<void> {
    await this.#call("quiescing", { method: "POST", path: "/quiesce", signal }, z.object({}));
  }

  /**
   * Waits for the end of the entrypoint, across cut connections, and gives its exit code. Gives undefined when `ended`
   * (the sandbox's own end) comes first.
   */
  async untilExit(ended: Promise<void>): Promise<number | undefined> {
    const over = new AbortController();
    void ended.then(() => {
      over.abort();
    });
    while (!over.signal.aborted) {
      try {
        const call = { method: "GET", path: "/exit", signal: over.signal } as const;
        return (await this.#call("waiting for the entrypoint", call, ExitAnswer)).exitCode;
      } catch {
        // The connection was cut, by a checkpoint for example; whether the sandbox is gone, `ended` says.
        await sleep(betweenTriesMilliseconds, undefined, { signal: over.signal }).catch(() => undefined);
      }
    }
    return undefined;
  }

  async #call<T extends z.ZodType>(what: string, call: ControlCall, answer: T): Promise<z.infer<T>> {
    const { body, ...rest } = call;
    const response = await callGuest(this.#dial, {
      ...rest,
      ...(body === undefined
        ? {}
        : { body: Buffer.from(JSON.stringify(body)), headers: { "content-type": "application/json" } }),
    });
    const text = await textOf(response);
    if (response.statusCode !== 200) throw guestError(what, response.statusCode ?? 0, text);
    return answer.parse(JSON.parse(text));
  }
}

interface ControlCall {
  method: "GET" | "POST";
  path: string;
  body?: unknown;
  signal?: AbortSignal | undefined;
}

const ExitAnswer = z.object({ exitCode: z.number().int() });
