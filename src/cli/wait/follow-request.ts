import type { KubeObject } from "../../kube/object.ts";
import type { ResourceClient } from "../../kube/resource-client.ts";
import { waitUntil } from "../../kube/wait-until.ts";
import type { Io } from "../io.ts";
import { startProgress } from "./progress.ts";
import { wishStays } from "./request-stays.ts";

export interface WishToFollow<T extends KubeObject> {
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
export async function followWish<T extends KubeObject>(io: Io, wish: WishToFollow<T>): Promise<T | undefined> {
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
    throw wishStays(error, { what, state: describe(last), look: `ramet ${noun} get ${name}` });
  }
}
