import { isDeepStrictEqual } from "node:util";
import { RametError } from "../base/errors.ts";
import { keyOf, type KubeObject } from "./object.ts";
import type { CallOptions, JsonPatchOperation, ResourceClient } from "./resource-client.ts";
import { apiStatusOf } from "./status-error.ts";

interface WriteOptions extends CallOptions {
  unlessChanged?: readonly string[];
}

export type WithStatus = KubeObject & { status?: object | undefined };

/**
 * Writes the status of one kind. It writes only the differences from the last known status, field by field also inside of objects, so
 * writes at the same time lose nothing of each other. Its own last write counts as known, although an informer shows it later.
 */
export class StatusWriter<T extends WithStatus> {
  readonly #resource: ResourceClient<T>;
  /** By the object before a write, the server's response. Collected when the cache drops the object. */
  readonly #written = new WeakMap<T, T>();
  /**
   * By UID, the last written status and the status in the response. They differ if the server keeps or drops fields (a Pod's
   * `qosClass`, fields that are not in the schema). Writing the same status again would change nothing.
   */
  readonly #settled = new Map<string, { desired: object; made: object }>();

  readonly #withGeneration: boolean;
  readonly #deciding: readonly string[];

  /**
   * @param options.observedGeneration whether the kind's status has that field. @default true
   * @param options.deciding the fields from which statuses are made: one that was changed since refuses a write. @default `phase`
   */
  constructor(
    resource: ResourceClient<T>,
    { observedGeneration = true, deciding = ["phase"] }: { observedGeneration?: boolean; deciding?: string[] } = {},
  ) {
    this.#resource = resource;
    this.#withGeneration = observedGeneration;
    this.#deciding = deciding;
  }

  /** The object after this writer's last write, if that was based on this object. */
  latest(object: T): T {
    return this.#written.get(object) ?? object;
  }

  /**
   * Replaces the whole status, sets `observedGeneration`, and returns the written object. Fields that are as in `object` stay as this
   * writer's last write has left them.
   *
   * @param object from an informer or the API server, with the observed generation
   * @param options.unlessChanged labels on which the status depends; one that is missing may appear
   * @throws RametError `NotFound` or `Conflict` if the object was deleted, even if another one has its name, or a label or a deciding field
   *   was changed: a process that does not lead any more may write late
   */
  async write(object: T, status: NonNullable<T["status"]>, options: WriteOptions = {}): Promise<T> {
    const seen = this.latest(object);
    const { generation, uid } = object.metadata;
    const planned = plain(this.#withGeneration ? { ...status, observedGeneration: generation } : status);
    const known = plain(seen.status ?? {});
    const desired = seen === object ? planned : changed(known, { from: plain(object.status ?? {}), to: planned });
    if (isDeepStrictEqual(known, desired) || this.#isSettled(uid, known, desired)) return seen;
    const changes =
      seen.status === undefined ? [{ op: "add" as const, path: "/status", value: desired }] : changesTo(known, desired);
    const written = await this.#patch(seen, changes, options);
    this.#written.set(object, written);
    this.#settle(uid, desired, plain(written.status ?? {}));
    return written;
  }

  async #patch(object: T, changes: JsonPatchOperation[], options: WriteOptions): Promise<T> {
    const { uid, labels = {} } = object.metadata;
    const { unlessChanged = [], ...call } = options;
    // A merge patch cannot guard the UID: in one for a custom resource's status, the API server reads only the status.
    const guards = [
      { op: "test" as const, path: "/metadata/uid", value: uid },
      ...foundIn(object, this.#deciding).map(({ path, value }) => ({ op: "test" as const, path, value })),
      ...unlessChanged.flatMap((label) => {
        const value = labels[label];
        return value === undefined ? [] : [{ op: "test" as const, path: pointerTo("/metadata/labels", label), value }];
      }),
    ];
    try {
      return await this.#resource.jsonPatch(object.metadata, [...guards, ...changes], {
        subresource: "status",
        ...call,
      });
    } catch (error) {
      if (apiStatusOf(error)?.httpStatus !== 422) throw error;
      const now = await this.#resource.get(object.metadata, call);
      const why = whyRefused(object, now, { unlessChanged, deciding: this.#deciding });
      if (why === undefined) throw error;
      const what = `Writing the status of ${this.#resource.ref.kind} ${keyOf(object.metadata)} failed`;
      throw new RametError("Conflict", `${what}: ${why}`, { cause: error });
    }
  }

  #isSettled(uid: string, known: object, desired: object): boolean {
    const settled = this.#settled.get(uid);
    return settled !== undefined && isDeepStrictEqual(settled, { desired, made: known });
  }

  #settle(uid: string, desired: object, made: object): void {
    this.#settled.delete(uid);
    // A status that the server stored unchanged needs no entry.
    if (!isDeepStrictEqual(desired, made)) this.#settled.set(uid, { desired, made });
    for (const oldest of this.#settled.keys()) {
      if (this.#settled.size <= mostSettled) return;
      this.#settled.delete(oldest);
    }
  }
}

function whyRefused(
  object: WithStatus,
  now: WithStatus,
  { unlessChanged, deciding }: { unlessChanged: readonly string[]; deciding: readonly string[] },
): string | undefined {
  const { metadata } = object;
  if (now.metadata.uid !== metadata.uid) return "it was deleted, and another one has its name";
  const label = unlessChanged.find((one) => now.metadata.labels?.[one] !== metadata.labels?.[one]);
  if (label !== undefined) return `its label ${label} was changed`;
  const isSame = isDeepStrictEqual(foundIn(now, deciding), foundIn(object, deciding));
  return isSame ? undefined : "its phase or its Pod was changed";
}

/** What an object must still have when a status is written that was made from it. The API server takes null for a missing field. */
function foundIn({ status }: WithStatus, deciding: readonly string[]): { path: string; value: unknown }[] {
  if (status === undefined) return [{ path: "/status", value: null }];
  return deciding
    .map((field) => {
      const parts = field.split(".");
      const value = parts.reduce<unknown>((at, part) => (isFields(at) ? at[part] : undefined), status);
      return { path: parts.reduce(pointerTo, "/status"), value };
    })
    .filter(({ value }) => value !== undefined);
}

/** A JSON pointer (RFC 6901). */
function pointerTo(parent: string, field: string): string {
  return `${parent}/${field.replaceAll("~", "~0").replaceAll("/", "~1")}`;
}

/** An entry that was dropped costs one write without a change. */
const mostSettled = 10_000;

type Fields = Record<string, unknown>;

/** The value as JSON, without undefined fields. */
function plain(value: object): Fields {
  return Object.fromEntries(Object.entries(JSON.parse(JSON.stringify(value)) as object));
}

function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The fields with the changes that lead from one value to another. */
function changed(fields: Fields, { from, to }: { from: Fields; to: Fields }): Fields {
  const valueOf = (field: string): unknown => {
    const [own, before, after] = [fields[field], from[field], to[field]];
    if (isFields(own) && isFields(after)) return changed(own, { from: isFields(before) ? before : {}, to: after });
    return isDeepStrictEqual(before, after) ? own : after;
  };
  const all = [...new Set([...Object.keys(fields), ...Object.keys(to)])].map(
    (field) => [field, valueOf(field)] as const,
  );
  return Object.fromEntries(all.filter(([, value]) => value !== undefined));
}

function changesTo(known: Fields, desired: Fields, parent = "/status"): JsonPatchOperation[] {
  const removed = Object.keys(known).filter((field) => !(field in desired));
  return [
    ...removed.map((field) => ({ op: "remove" as const, path: pointerTo(parent, field) })),
    ...Object.entries(desired).flatMap(([field, value]): JsonPatchOperation[] => {
      const [path, before] = [pointerTo(parent, field), known[field]];
      if (isDeepStrictEqual(before, value)) return [];
      return isFields(before) && isFields(value) ? changesTo(before, value, path) : [{ op: "add", path, value }];
    }),
  ];
}
