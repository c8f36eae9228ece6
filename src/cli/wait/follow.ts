import { RametError } from "../../base/errors.ts";
import type { KubeObject } from "../../kube/object.ts";
import type { ResourceClient } from "../../kube/resource-client.ts";
import { waitUntil } from "../../kube/wait-until.ts";
import { type Io, printLine } from "../io.ts";
import { clip } from "../output/render.ts";

export interface FollowedRequest<T extends KubeObject> {
  resource: ResourceClient<T>;
  /** The object as returned when it was created or read. */
  from: T;
  /** The kind's name on the command line, such as `sandbox`. */
  noun: string;
  /** The name of the awaited thing in errors. @default `the <noun> <name>` */
  what?: string;
  /** Whether the wait is over. A deleted object always ends it. */
  isOver: (object: T) => boolean;
  /** The state in a few words; `undefined` is a deleted object. */
  describe: (object: T | undefined) => string;
  /** The state for progress lines. @default `describe` */
  describeProgress?: (object: T | undefined) => string;
  timeoutMilliseconds: number;
  /** How often to check even if nothing has changed. @default never */
  requeueAfterMilliseconds?: number;
  /** Whether this command has created the object, so that its user may not need it any more. */
  isNew?: boolean;
  /** Whether to print the progress of a slow operation also where nobody watches it. @default false */
  reportsSlow?: boolean;
}

/**
 * Follows an object until `isOver` holds or it is deleted, prints its progress, and returns its last state.
 *
 * @throws RametError `Timeout` or `Canceled`, with the state and the command to follow it with
 */
export async function followRequest<T extends KubeObject>(io: Io, request: FollowedRequest<T>): Promise<T | undefined> {
  const { resource, from, noun, describe, timeoutMilliseconds, requeueAfterMilliseconds } = request;
  const { name, namespace = "" } = from.metadata;
  const { what = `the ${noun} ${name}`, describeProgress = describe } = request;
  const progress = startProgress(io, request.reportsSlow);
  let last: T | undefined = from;
  try {
    return await waitUntil({
      resource,
      from,
      until: (object) => {
        last = object;
        return object === undefined || request.isOver(object);
      },
      onState: (object) => {
        progress(`${noun} ${name}: ${describeProgress(object)}`);
      },
      timeoutMilliseconds,
      requeueAfterMilliseconds: Math.min(requeueAfterMilliseconds ?? Infinity, silentMilliseconds),
      signal: io.signal,
    });
  } catch (error) {
    const which = `${name} -n ${namespace}`;
    const remove = request.isNew === true ? `ramet ${noun} rm ${which}` : undefined;
    throw requestStays(error, { what, state: describe(last), look: `ramet ${noun} get ${which}`, remove });
  }
}

/** Where stderr is no terminal, a wait is reported only once it takes long. */
const silentMilliseconds = 10_000;

/**
 * Prints a line with the elapsed seconds at each change of the state. Unless stderr is a terminal, it prints nothing, or with
 * `reportsSlow` only what happens after 10 s.
 */
export function startProgress(io: Io, reportsSlow = false): (state: string) => void {
  const started = io.clock.monotonicMilliseconds();
  let last: string | undefined;
  return (state) => {
    const elapsed = io.clock.monotonicMilliseconds() - started;
    if (state === last || !(io.progressIsSeen || (reportsSlow && elapsed >= silentMilliseconds))) return;
    last = state;
    const line = `${(elapsed / 1000).toFixed(1).padStart(6)}s  ${state.replace(/\s+/g, " ")}`;
    // A problem is cut here, because the error at the end has all of it.
    printLine(io.stderr, clip(line, io.progressColumns?.() ?? Infinity));
  };
}

/**
 * The error for a wait that timed out or was interrupted: the object stays in the API, and the controllers continue.
 *
 * @param what `the sandbox a`
 * @param state its current state
 * @param look the command that shows its progress
 * @param remove the command that withdraws the request
 */
export function requestStays(
  error: unknown,
  { what, state, look, remove }: { what: string; state: string; look: string; remove?: string | undefined },
): RametError {
  const known = RametError.from(error);
  const withdraw = remove === undefined ? "" : `, or remove it with: ${remove}`;
  const hint = `The request stays, and Ramet keeps trying; follow it with: ${look}${withdraw}`;
  if (known.code !== "Timeout" && known.code !== "Canceled") return known;
  const end = known.code === "Timeout" ? "timed out" : "was interrupted";
  return new RametError(known.code, `Waiting for ${what} ${end}: it is ${state}`, { hint, cause: error });
}
