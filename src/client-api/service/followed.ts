import { RametError } from "../../base/errors.ts";
import type { Followers } from "../../kube/followers.ts";
import type { KubeObject } from "../../kube/object.ts";
import type { OwnWrites } from "../../kube/own-writes.ts";
import type { ResourceClient } from "../../kube/resource-client.ts";
import type { Followed, Following } from "../../operations/objects.ts";

/** The objects of a kind, followed in the cache of an informer. @param writes remembers what this process writes */
export function followed<T extends KubeObject>(
  resource: ResourceClient<T>,
  followers: Followers<T>,
  writes?: OwnWrites<T>,
): Followed<T> {
  return {
    create: (manifest, signal) => resource.create(manifest, signal && { signal }),
    patch: (object, change, signal) => {
      const { uid } = object.metadata;
      const guarded = { ...change, metadata: { ...change.metadata, uid } };
      const write = () => resource.mergePatch(object.metadata, guarded, signal && { signal });
      return writes === undefined ? write() : writes.write(object, write);
    },
    // What a client has given up is deleted even if it has disconnected.
    remove: ({ metadata }) => resource.delete(metadata, { uid: metadata.uid }),
    follow: (written, following) => follow(followers, written, following),
  };
}

async function follow<T extends KubeObject, R>(
  followers: Followers<T>,
  written: T,
  { what, until, describe, ...wait }: Following<T, R>,
): Promise<R> {
  let wasKnown = false;
  let last: T | undefined = written;
  const check = (cached: T | undefined): R | undefined => {
    wasKnown ||= cached !== undefined;
    last = wasKnown ? cached : written;
    return until(last);
  };
  try {
    return await followers.until(written.metadata.uid, check, { what: `Waiting for ${what}`, ...wait });
  } catch (error) {
    const known = RametError.from(error);
    if (known.code !== "Timeout") throw known;
    throw new RametError("Timeout", `${known.message}: it is ${describe(last)}`, { cause: error });
  }
}
