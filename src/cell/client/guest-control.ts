import { open } from "node:fs/promises";
import type { IncomingMessage } from "node:http";
import * as z from "zod";
import { Programs, RandomPrograms } from "../../api/schema/metadata.ts";
import type { ContainerSpec, Identity } from "../../api/wire/cell-api.ts";
import { type Clock, delay, systemClock } from "../../base/clock.ts";
import { defined } from "../../base/defined.ts";
import { RametError } from "../../base/errors.ts";
import { writeWithHoles } from "../../store/directory/durable.ts";
import { guarded } from "../../store/store-error.ts";
import {
  callGuest,
  type GuestCall,
  ExitCode,
  type GuestDial,
  guestError,
  guestLimits,
  GuestText,
  parsedAnswer,
  textOf,
} from "./guest-http.ts";

export const GuestHealth = z.object({
  pid: z.number().int(),
  /** How many identities this memory has had. 0 before the first one. */
  generation: z.number().int().min(0),
  entrypoint: z.object({
    /**
     * `waiting`: it starts when the sandbox has its identity, or shortly after boot without one. `failed`: it could not be
     * started; the exit code is 126 or 127.
     */
    state: z.enum(["none", "waiting", "running", "exited", "failed"]),
    exitCode: ExitCode.optional(),
    message: GuestText.optional(),
  }),
});
export type GuestHealth = z.infer<typeof GuestHealth>;

export const GuestInitResult = z.object({
  hooks: z.array(
    z.object({
      path: GuestText,
      milliseconds: z.number(),
      /** As in a shell: 127 if it could not be started, 137 if it was killed. */
      exitCode: ExitCode,
      timedOut: z.boolean().default(false),
      /** The last 4 KiB of its output. */
      output: GuestText.default(""),
    }),
  ),
  /** Failed steps that the sandbox can run without. */
  warnings: z.array(GuestText).default([]),
});
export type GuestInitResult = z.infer<typeof GuestInitResult>;

export interface GuestInit extends Identity {
  /** The limits of the sandbox, which its programs cannot see. */
  limits: ContainerSpec["resources"];
  /** Higher than the previous one. Repeating it with the same sandbox returns the same result and runs nothing. */
  generation: number;
  clone: boolean;
  /** RFC 3339. The guest warns if its clock differs too much. */
  now: string;
  hookTimeoutMilliseconds: number;
}

const betweenTriesMilliseconds = 200;
/** The limit of calls that run no program. */
const responseMilliseconds = 15_000;
/** The limit for all hooks of a clone together. */
const initMilliseconds = 300_000;

/** A client of the guest's control port (49982), which only the cell can reach. */
export class GuestControl {
  readonly #dial: GuestDial;
  readonly #clock: Clock;

  constructor(dial: GuestDial, clock: Clock = systemClock) {
    this.#dial = dial;
    this.#clock = clock;
  }

  health(signal?: AbortSignal): Promise<GuestHealth> {
    const call = { method: "GET", path: "/health", signal, responseMilliseconds } as const;
    return this.#call("asking for the guest's health", call, GuestHealth);
  }

  /**
   * Gives the sandbox its identity. For a clone, resolves when its hooks have exited.
   *
   * @throws RametError `Conflict` if the guest has a later generation, or this generation with another identity
   */
  init(identity: GuestInit, signal?: AbortSignal): Promise<GuestInitResult> {
    const limits = { signal, responseMilliseconds: initMilliseconds };
    return this.#call(
      "taking an identity",
      { method: "POST", path: "/init", body: identity, ...limits },
      GuestInitResult,
    );
  }

  /** Makes the programs of the sandbox trust a CA. @param roots PEM of the public CAs, for an image without any */
  async trust(certificate: string, roots: string): Promise<void> {
    const body = { certificate, roots };
    const call = { method: "POST", path: "/trust", body, responseMilliseconds } as const;
    await this.#call("trusting a CA", call, z.object({}));
  }

  /** Flushes the sandbox's files. */
  async quiesce(signal?: AbortSignal): Promise<void> {
    await this.#call("quiescing", { method: "POST", path: "/quiesce", signal, responseMilliseconds }, z.object({}));
  }

  /** Names programs that clones share a seed of random numbers with, as far as the guest recognizes them. */
  async randomPrograms(signal?: AbortSignal): Promise<string[]> {
    const call = { method: "GET", path: "/random-programs", signal, responseMilliseconds } as const;
    return (await this.#call("looking at programs", call, z.object({ programs: RandomPrograms }))).programs;
  }

  /** The programs that run besides the guest. */
  programs(signal?: AbortSignal): Promise<Programs> {
    const call = { method: "GET", path: "/programs", signal, responseMilliseconds } as const;
    return this.#call("listing programs", call, Programs);
  }

  /**
   * Writes a layer with what was changed in the root of the sandbox into a new file.
   * @param base changed directories before the changes: for each entry a record `CTIME PATH\0`, with nanoseconds and a path without a
   * leading slash, and `0 PATH/\0` for each directory whose entries are listed
   * @param limits `withTmp`: also what is in /tmp; `maxBytes`: the layer's largest size
   * @throws RametError `QuotaExceeded`, `Internal` with the guest's reason, `GuestUnreachable`, `StoreFull` and others of `storeError`
   */
  async changes(base: Buffer, path: string, { withTmp, maxBytes, signal }: ChangesLimits): Promise<ChangesResult> {
    const most = Number.isFinite(maxBytes) ? [`most=${Math.floor(maxBytes)}`] : [];
    const call = changesCall(base, [...(withTmp ? ["with=tmp"] : []), "zeros=counted", ...most], signal);
    const response = await callGuest(this.#dial, call, this.#clock);
    if (response.statusCode !== 200) {
      const text = await textOf(response, guestLimits.error, this.#clock);
      throw guestError("writing a layer", response.statusCode ?? 0, text);
    }
    // A guest of an earlier release sends zeros too.
    const runs = response.headers["ramet-zeros"] === "counted" ? runsIn(response) : (response as AsyncIterable<Buffer>);
    await guarded("writing a layer", () => writeSparse(runs, path, maxBytes));
    const answer = parsedAnswer(ChangesResult, response.trailers["ramet-layer"] ?? "", "the guest's answer to a layer");
    const { message, tooLarge = false } = answer;
    if (message !== undefined)
      throw new RametError(tooLarge ? "QuotaExceeded" : "Internal", `writing a layer failed: ${message}`);
    return answer;
  }

  /**
   * The directories that were changed and whose entries `base` lacks, at most some of them: latin1, as {@link changes} has them.
   * @throws RametError `Internal`, `GuestUnreachable`
   */
  async unlisted(base: Buffer, { withTmp, signal }: Omit<ChangesLimits, "maxBytes">): Promise<string[]> {
    const what = "looking for changed directories";
    const call = changesCall(base, ["unlisted", ...(withTmp ? ["with=tmp"] : [])], signal);
    const response = await callGuest(this.#dial, call, this.#clock);
    return (await this.#answer(what, response, Unlisted, guestLimits.list)).directories;
  }

  /**
   * Waits until the entrypoint exits, or cannot be started. Reconnects if the connection is lost. Returns undefined if the
   * sandbox ends first (`ended`).
   */
  async untilExit(ended: Promise<void>): Promise<EntrypointExit | undefined> {
    const over = new AbortController();
    void ended.then(() => {
      over.abort();
    });
    while (!over.signal.aborted) {
      try {
        const call = { method: "GET", path: "/exit", signal: over.signal } as const;
        return await this.#call("waiting for the entrypoint", call, EntrypointExit);
      } catch {
        // The connection was lost, for example by a checkpoint. `ended` tells whether the sandbox has ended.
        await delay(this.#clock, betweenTriesMilliseconds, over.signal).catch(() => undefined);
      }
    }
    return undefined;
  }

  async #call<T extends z.ZodType>(what: string, call: ControlCall, answer: T): Promise<z.infer<T>> {
    const { body: value, ...rest } = call;
    const body = value === undefined ? undefined : Buffer.from(JSON.stringify(value));
    const headers = body && { "content-type": "application/json" };
    const response = await callGuest(this.#dial, { ...rest, ...defined({ body, headers }) }, this.#clock);
    return this.#answer(what, response, answer, guestLimits.control);
  }

  async #answer<T extends z.ZodType>(
    what: string,
    response: IncomingMessage,
    answer: T,
    most: number,
  ): Promise<z.infer<T>> {
    const isAnswer = response.statusCode === 200;
    const text = await textOf(response, isAnswer ? most : guestLimits.error, this.#clock);
    if (!isAnswer) throw guestError(what, response.statusCode ?? 0, text);
    return parsedAnswer(answer, text, `the guest's answer to ${what}`);
  }
}

function changesCall(body: Buffer, query: readonly string[], signal: AbortSignal): GuestCall {
  const headers = { "content-type": "application/octet-stream" };
  return { method: "POST", path: `/changes?${query.join("&")}`, body, signal, headers };
}

const Unlisted = z.object({ directories: z.array(z.string()) });

interface ChangesLimits {
  withTmp: boolean;
  maxBytes: number;
  signal: AbortSignal;
}

const ChangesResult = z.object({
  entries: z.number(),
  bytes: z.number(),
  /** Device nodes, which a layer does not have. A guest of an earlier release counts sockets too. */
  skipped: z.int().min(0),
  /** The first of them. Not of such a guest. */
  names: z.array(GuestText).max(5).default([]),
  /** The files would exceed `most`. Guests of earlier releases do not check it. */
  tooLarge: z.boolean().optional(),
  message: GuestText.optional(),
});
export type ChangesResult = z.infer<typeof ChangesResult>;

const atOnceBytes = 256 * 1024;

async function writeSparse(runs: AsyncIterable<Buffer | number>, path: string, maxBytes: number): Promise<void> {
  const file = await open(path, "wx", 0o600);
  try {
    let [bytes, written] = [0, 0];
    let pending: Buffer[] = [];
    const flush = async (): Promise<void> => {
      await writeWithHoles(file, Buffer.concat(pending), written);
      [pending, written] = [[], bytes];
    };
    for await (const run of runs) {
      const length = typeof run === "number" ? run : run.length;
      if (bytes + length > maxBytes) throw aboveMost(maxBytes);
      if (typeof run === "number") await flush();
      else pending.push(run);
      bytes += length;
      if (typeof run === "number") written = bytes;
      // Small files have several runs each.
      else if (bytes - written >= atOnceBytes) await flush();
    }
    await flush();
    await file.truncate(bytes);
  } finally {
    await file.close();
  }
}

/**
 * The data in what the guest wrote, and the numbers of zeros. Each run begins with 4 bytes: its length, with the highest bit for zeros.
 * @throws RametError `Internal` for runs that cost the cell more than what they have
 */
async function* runsIn(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer | number> {
  let [head, left] = [Buffer.alloc(0), 0];
  let spareRuns = spareOfRuns;
  for await (const chunk of chunks) {
    let at = 0;
    while (at < chunk.length) {
      const part = chunk.subarray(at, at + (left > 0 ? left : headBytes - head.length));
      at += part.length;
      if (left > 0) {
        left -= part.length;
        yield part;
        continue;
      }
      head = Buffer.concat([head, part]);
      if (head.length < headBytes) continue;
      const length = head.readUInt32BE();
      head = Buffer.alloc(0);
      const isZeros = length >= zeroRun;
      spareRuns += (isZeros ? length - zeroRun : length) / leastOfRun - 1;
      if (spareRuns < 0)
        throw new RametError(
          "Internal",
          "writing a layer failed: the guest sends it in runs that are empty or too small",
        );
      if (isZeros) yield length - zeroRun;
      else left = length;
    }
  }
}

const headBytes = 4;
const zeroRun = 2 ** 31;
/** The least mean size of runs after the first ones. A tar has blocks of 512 bytes, in few runs, of which some are empty. */
const leastOfRun = 64;
const spareOfRuns = 1_000;

function aboveMost(maxBytes: number): RametError {
  const why = `it has more than ${maxBytes} bytes, with the holes of sparse files`;
  return new RametError("QuotaExceeded", `writing a layer failed: ${why}`);
}

interface ControlCall extends Omit<GuestCall, "headers" | "body"> {
  body?: unknown;
}

const EntrypointExit = z.object({
  exitCode: ExitCode,
  /** Why it could not be started. */
  message: GuestText.optional(),
});
export type EntrypointExit = z.infer<typeof EntrypointExit>;
