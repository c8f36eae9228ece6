import { isDeepStrictEqual } from "node:util";
import type { KubeObject } from "./object.ts";
import type { CallOptions, ResourceClient } from "./resource-client.ts";

export type WithStatus = KubeObject & { status?: object | undefined };

/**
 * The one place that writes the status of a kind. It writes only what differs from what was last seen, where its own
 * last write counts as seen: an informer shows it a little later.
 */
export class StatusWriter<T extends WithStatus> {
  readonly #resource: ResourceClient<T>;
  /** By the object on which a write was based: what the server made of it. Goes when the cache drops the object. */
  readonly #written = new WeakMap<T, T>();

  readonly #withGeneration: boolean;

  /** @param options.observedGeneration whether the kind's status has that field. @default true */
  constructor(resource: ResourceClient<T>, options: { observedGeneration?: boolean } = {}) {
    this.#resource = resource;
    this.#withGeneration = options.observedGeneration ?? true;
  }

  /** The object, with this writer's own last write if that was based on it. */
  latest(object: T): T {
    return this.#written.get(object) ?? object;
  }

  /**
   * Makes `status` the object's whole status, with `observedGeneration`, and answers the object as it is then.
   *
   * @param object as it came from an informer or the API server; it says which generation was looked at
   * @throws RametError `NotFound` or `Conflict` if the object is gone, also if another one bears its name by now
   */
  async write(object: T, status: NonNullable<T["status"]>, options: CallOptions = {}): Promise<T> {
    const seen = this.latest(object);
    const { generation, uid } = object.metadata;
    const wanted = plain(this.#withGeneration ? { ...status, observedGeneration: generation } : status);
    const known = plain(seen.status ?? {});
    if (isDeepStrictEqual(known, wanted)) return seen;
    const patch = { metadata: { uid }, status: mergePatchTo(known, wanted) };
    const written = await this.#resource.mergePatch(object.metadata, patch, { subresource: "status", ...options });
    this.#written.set(object, written);
    return written;
  }
}

/** As JSON carries it: without fields that are undefined. */
function plain(value: object): Record<string, unknown> {
  return Object.fromEntries(Object.entries(JSON.parse(JSON.stringify(value)) as object));
}

/** All that is wanted, with null for what is known and not wanted (RFC 7396). */
function mergePatchTo(known: Record<string, unknown>, wanted: Record<string, unknown>): Record<string, unknown> {
  const patch: Record<string, unknown> = { ...wanted };
  for (const [field, before] of Object.entries(known)) {
    const after = wanted[field];
    if (after === undefined) patch[field] = null;
    else if (isRecord(before) && isRecord(after)) patch[field] = mergePatchTo(before, after);
  }
  return patch;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
