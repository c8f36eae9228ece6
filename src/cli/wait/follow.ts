import type { Condition } from "../../api/schema/metadata.ts";
import { type ErrorCode, errorCodes } from "../../base/error-codes.ts";
import { RametError } from "../../base/errors.ts";
import type { KubeObject } from "../../kube/object.ts";
import type { ResourceClient } from "../../kube/resource-client.ts";
import { waitUntil } from "../../kube/wait-until.ts";
import { type Io, printLine } from "../io.ts";

export interface FollowedRequest<T extends KubeObject> {
  resource: ResourceClient<T>;
  /** As it was created, or read. */
  from: T;
  /** What the command line calls its kind: `sandbox`. */
  noun: string;
  /** What is waited for, as an error names it. @default `the <noun> <name>` */
  what?: string;
  /** Whether the waiting is over; an object that is gone always ends it. */
  isOver: (object: T) => boolean;
  /** How it is, in a few words; `undefined` is gone. */
  describe: (object: T | undefined) => string;
  /** The same for the progress. @default `describe` */
  describeProgress?: (object: T | undefined) => string;
  timeoutMilliseconds: number;
}

/**
 * Follows an object until it is as wanted or gone, shows how it comes along, and returns it as it was seen last.
 *
 * @throws RametError `Timeout` or `Canceled`, saying how it is and how to look on
 */
export async function followRequest<T extends KubeObject>(io: Io, wish: FollowedRequest<T>): Promise<T | undefined> {
  const { resource, from, noun, describe, timeoutMilliseconds } = wish;
  const { name } = from.metadata;
  const { what = `the ${noun} ${name}`, describeProgress = describe } = wish;
  const progress = startProgress(io);
  let last: T | undefined = from;
  try {
    return await waitUntil({
      resource,
      from,
      until: (object) => {
        last = object;
        return object === undefined || wish.isOver(object);
      },
      onState: (object) => {
        progress(`${noun} ${name}: ${describeProgress(object)}`);
      },
      timeoutMilliseconds,
      signal: io.signal,
    });
  } catch (error) {
    throw requestStays(error, { what, state: describe(last), look: `ramet ${noun} get ${name}` });
  }
}

/**
 * Tells a person what is happening, one line at each change, with the seconds since the beginning. Says nothing where
 * nobody watches.
 */
export function startProgress(io: Io): (state: string) => void {
  const started = io.clock.monotonicMilliseconds();
  let last: string | undefined;
  return (state) => {
    if (!io.progressIsSeen || state === last) return;
    last = state;
    const seconds = (io.clock.monotonicMilliseconds() - started) / 1000;
    printLine(io.stderr, `${seconds.toFixed(1).padStart(6)}s  ${state}`);
  };
}

/** The part of a status that says how an object is. */
interface Reported {
  status?:
    { phase?: string | undefined; message?: string | undefined; conditions?: Condition[] | undefined } | undefined;
}

/** How a wait ended that was not cut short: the object as it was wanted, or why it cannot get there. */
export type Settled<T> = { object: T } | { failure: RametError };

/** The phase, and why it is that one where something is wrong: `Pending: the template x does not exist`. */
export function describeState(object: Reported | undefined): string {
  if (object === undefined) return "gone";
  const phase = object.status?.phase ?? "not seen by a controller yet";
  const why = messageOf(object)?.replace(codeAtEnd, "");
  return why === undefined ? phase : `${phase}: ${why}`;
}

/** What a person should read: the status' message, else that of the condition that says what is wrong. */
export function messageOf({ status }: Reported): string | undefined {
  const wrong = status?.conditions?.filter((condition) => condition.status === "False") ?? [];
  const failed = status?.phase === "Failed" ? wrong[0] : undefined;
  const found = status?.message ?? wrong.find(({ type }) => type === "Ready")?.message ?? failed?.message;
  return found === "" ? undefined : found;
}

/**
 * The error for an object that ended in a way that was not wanted: with the code that the controller wrote, as a
 * condition's reason or at the end of the message.
 */
export function failureOf(what: string, object: Reported, fallback: ErrorCode): RametError {
  const message = messageOf(object) ?? "it gave no reason";
  const ending = codeAtEnd.exec(message);
  const reasons = (object.status?.conditions ?? [])
    .filter(({ status }) => status === "False")
    .map(({ reason }) => reason);
  const code = [ending?.[1], ...reasons].find(isErrorCode) ?? fallback;
  const why = isErrorCode(ending?.[1]) ? message.slice(0, ending.index) : message;
  return new RametError(code, `${what}: ${why}`);
}

/** As `RametError.describe` ends. */
const codeAtEnd = / \[([A-Z]\w+)\]$/;

function isErrorCode(word: string | undefined): word is ErrorCode {
  return word !== undefined && Object.hasOwn(errorCodes, word);
}

/**
 * What a person is told when a wait ends before what was waited for: the object stays in the API, and the controllers
 * go on with it.
 *
 * @param what `the sandbox a`
 * @param state how it is by now
 * @param look the command that shows how it goes on
 */
export function requestStays(
  error: unknown,
  { what, state, look }: { what: string; state: string; look: string },
): RametError {
  const known = RametError.from(error);
  if (known.code === "Timeout") {
    return new RametError("Timeout", `Waiting for ${what} took too long: it is ${state}`, {
      hint: `The wish stays, and Ramet goes on with it. Look with: ${look}`,
      cause: error,
    });
  }
  if (known.code === "Canceled") {
    return new RametError("Canceled", `Waiting for ${what} was interrupted: it is ${state}`, {
      hint: `The wish stays, and Ramet goes on with it. Look with: ${look}`,
      cause: error,
    });
  }
  return known;
}
