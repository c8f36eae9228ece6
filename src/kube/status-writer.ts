import { isDeepStrictEqual } from "node:util";
import { RametError } from "../base/errors.ts";
import { keyOf, type KubeObject } from "./object.ts";
import type { CallOptions, JsonPatchOperation, ResourceClient } from "./resource-client.ts";
import { apiStatusOf } from "./status-error.ts";

export type WithStatus = KubeObject & { status?: object | undefined };

/**
 * The one place that writes the status of a kind. It writes only what differs from what was last seen, where its own
 * last write counts as seen: an informer shows it a little later.
 */
export class StatusWriter<T extends WithStatus> {
  readonly #resource: ResourceClient<T>;
  /** By the object on which a write was based: what the server made of it. Goes when the cache drops the object. */
  readonly #written = new WeakMap<T, T>();
  /**
   * By UID: what was last wanted, and what the server made of that. It may keep or drop fields on its own (a Pod's
   * `qosClass`, what a schema does not know), and to ask for the same again would change nothing.
   */
  readonly #settled = new Map<string, { wanted: object; made: object }>();

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
    if (isDeepStrictEqual(known, wanted) || this.#isSettled(uid, known, wanted)) return seen;
    const changes =
      seen.status === undefined ? [{ op: "add" as const, path: "/status", value: wanted }] : changesTo(known, wanted);
    const written = await this.#patch(seen, changes, options);
    this.#written.set(object, written);
    this.#settle(uid, wanted, plain(written.status ?? {}));
    return written;
  }

  async #patch(object: T, changes: JsonPatchOperation[], options: CallOptions): Promise<T> {
    const { uid } = object.metadata;
    // A merge patch with the UID would not do: of a custom resource's status, the API server reads the status alone.
    const guarded = [{ op: "test" as const, path: "/metadata/uid", value: uid }, ...changes];
    try {
      return await this.#resource.jsonPatch(object.metadata, guarded, { subresource: "status", ...options });
    } catch (error) {
      if (apiStatusOf(error)?.httpStatus !== 422) throw error;
      const now = await this.#resource.get(object.metadata, options);
      if (now.metadata.uid === uid) throw error;
      const { kind } = this.#resource.ref;
      const what = `Writing the status of ${kind} ${keyOf(object.metadata)} failed`;
      throw new RametError("Conflict", `${what}: it was deleted, and another one has its name`, { cause: error });
    }
  }

  #isSettled(uid: string, known: object, wanted: object): boolean {
    const settled = this.#settled.get(uid);
    return settled !== undefined && isDeepStrictEqual(settled, { wanted, made: known });
  }

  #settle(uid: string, wanted: object, made: object): void {
    this.#settled.delete(uid);
    // What the server took as it was is found equal without being remembered.
    if (!isDeepStrictEqual(wanted, made)) this.#settled.set(uid, { wanted, made });
    for (const oldest of this.#settled.keys()) {
      if (this.#settled.size <= mostSettled) return;
      this.#settled.delete(oldest);
    }
  }
}

/** A forgotten one costs a write that changes nothing. */
const mostSettled = 10_000;

/** As JSON carries it: without fields that are undefined. */
function plain(value: object): Record<string, unknown> {
  return Object.fromEntries(Object.entries(JSON.parse(JSON.stringify(value)) as object));
}

function changesTo(known: Record<string, unknown>, wanted: Record<string, unknown>): JsonPatchOperation[] {
  const path = (field: string): string => `/status/${field.replaceAll("~", "~0").replaceAll("/", "~1")}`;
  const gone = Object.keys(known).filter((field) => !(field in wanted));
  const changed = Object.entries(wanted).filter(([field, value]) => !isDeepStrictEqual(known[field], value));
  return [
    ...gone.map((field) => ({ op: "remove" as const, path: path(field) })),
    ...changed.map(([field, value]) => ({ op: "add" as const, path: path(field), value })),
  ];
}
