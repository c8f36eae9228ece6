import type { Informer } from "../../src/kube/informer.ts";
import type { RequestRecord } from "../../src/kube/kube-client.ts";
import type { KubeObject } from "../../src/kube/object.ts";

export function writeOf({ verb, resource, subresource }: RequestRecord): string {
  return [verb, resource.plural, subresource].filter(Boolean).join(" ");
}

/** The reasons of the status writes of one object, in order: each version of an object is one write. */
export interface StatusCauses {
  /** The messages of writes that only report why the object waits. */
  notices: () => string[];
  stop: () => void;
}

/**
 * Follows the statuses of one object. An object that is not ready within half a second gets a status that reports why it waits.
 * `noticeOf` returns the message of such a status, and undefined for all others.
 */
export function followStatuses<T extends KubeObject>(
  { store }: Informer<T>,
  name: string,
  noticeOf: (object: T) => string | undefined,
): StatusCauses {
  const versions = new Map<string, string>();
  const stop = store.subscribe(({ object }) => {
    const notice = object.metadata.name === name ? noticeOf(object) : undefined;
    if (notice === undefined) return;
    // A version with the same notice as the one before was written for another reason.
    if ([...versions.values()].at(-1) !== notice) versions.set(object.metadata.resourceVersion, notice);
  });
  return { notices: () => [...versions.values()], stop };
}

/** The writes without one write of `status` for each notice, so that every other write counts whatever the time. */
export function withoutNotices(writes: readonly string[], { notices }: StatusCauses, status: string): string[] {
  let noticed = notices().length;
  return writes.filter((write) => write !== status || noticed-- <= 0);
}
