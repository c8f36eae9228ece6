import * as z from "zod";
import { defined } from "../base/defined.ts";
import { RametError, textOfError, unlessCode } from "../base/errors.ts";
import { type KubeManifest, type KubeObject, type ObjectName, parseObject } from "./object.ts";
import { apiVersionOf, type ResourcePath, type ResourceRef } from "./resource-ref.ts";
import { apiStatusOf } from "./status-error.ts";
import type { ApiCaller, Verb } from "./transport.ts";
import { type WatchEvent, type WatchOptions, watchResource } from "./watch.ts";

export interface CallOptions {
  signal?: AbortSignal | undefined;
}

export interface WriteOptions extends CallOptions {
  /** Such as `status` or `scale`. */
  subresource?: string;
  /** Validates the write without carrying it out. */
  dryRun?: boolean;
}

export interface ApplyOptions extends WriteOptions {
  fieldManager: string;
  /** Take over fields that another manager owns. @default false */
  force?: boolean;
}

export interface SelectOptions extends CallOptions {
  /** @default all namespaces */
  namespace?: string | undefined;
  labelSelector?: string | undefined;
  fieldSelector?: string | undefined;
}

export interface ListOptions extends SelectOptions {
  /** The number of objects per request; 0 means all. @default 500 */
  pageSize?: number;
  /** Called after each page. */
  onPage?: () => void;
}

export interface DeleteOptions extends CallOptions {
  /** Delete only the object with this UID, not a later one of the same name. */
  uid?: string | undefined;
  resourceVersion?: string | undefined;
  propagationPolicy?: "Background" | "Foreground" | "Orphan";
  gracePeriodSeconds?: number;
}

export interface JsonPatchOperation {
  op: "add" | "remove" | "replace" | "test";
  path: string;
  value?: unknown;
}

export interface ObjectList<T> {
  items: T[];
  /** The version from which a watch continues. */
  resourceVersion: string;
}

/** The objects of one resource in one API server. All methods throw `RametError`. */
export class ResourceClient<T extends KubeObject> {
  readonly client: ApiCaller;
  readonly ref: ResourceRef;
  readonly #parse: (value: unknown) => T;

  constructor(client: ApiCaller, ref: ResourceRef, parse: (value: unknown) => T) {
    this.client = client;
    this.ref = ref;
    this.#parse = parse;
  }

  /** @throws RametError `NotFound` */
  async get(at: ObjectName, options: CallOptions = {}): Promise<T> {
    const { client, ref: resource } = this;
    return this.read(
      await client.request({ verb: "get", resource, at: this.#place(at), repeatable: true, signal: options.signal }),
    );
  }

  /** Like `get`, but returns undefined if the object does not exist. */
  async find(at: ObjectName, options: CallOptions = {}): Promise<T | undefined> {
    return this.get(at, options).catch(unlessCode("NotFound"));
  }

  /**
   * Lists all matching objects, page by page.
   *
   * @throws RametError for which `isExpired` holds if the list expired between two pages: list again
   */
  async list(options: ListOptions = {}): Promise<ObjectList<T>> {
    const { items, resourceVersion } = await this.listRaw(options);
    return { items: items.map((item) => this.read(item)), resourceVersion };
  }

  /** Like `list`, with unparsed objects. */
  async listRaw(options: ListOptions = {}): Promise<ObjectList<unknown>> {
    const items: unknown[] = [];
    let resourceVersion = "";
    for await (const page of this.#pages(options)) {
      options.onPage?.();
      items.push(...page.items);
      resourceVersion = page.resourceVersion;
    }
    return { items, resourceVersion };
  }

  /** Like `list`, one page after another, so that the caller can stop or use what was read until an error. */
  async *pages(options: Omit<ListOptions, "onPage"> = {}): AsyncGenerator<T[], undefined> {
    for await (const { items } of this.#pages(options)) yield items.map((item) => this.read(item));
    return undefined;
  }

  async *#pages(options: ListOptions): AsyncGenerator<ObjectList<unknown>> {
    for (let token = ""; ;) {
      const page = Page.parse(
        await this.client.request({
          verb: "list",
          resource: this.ref,
          at: { namespace: options.namespace },
          query: {
            labelSelector: options.labelSelector,
            fieldSelector: options.fieldSelector,
            limit: options.pageSize ?? 500,
            ...(token === "" ? {} : { continue: token }),
          },
          repeatable: true,
          signal: options.signal,
        }),
      );
      const items = (page.items ?? []).map((item) => withKind(this.ref, item));
      yield { items, resourceVersion: page.metadata.resourceVersion };
      token = page.metadata.continue ?? "";
      if (token === "") return;
    }
  }

  /** Events from `resourceVersion` on, until the server ends the stream. See `watchResource`. */
  watch(options: WatchOptions): AsyncGenerator<WatchEvent<unknown>> {
    return watchResource(this.client, this.ref, options);
  }

  /** @throws RametError `AlreadyExists` */
  async create(object: KubeManifest, options: WriteOptions = {}): Promise<T> {
    const at = { namespace: this.#namespaceOf(object) };
    return this.read(await this.#write("create", at, object, { options, repeatable: false }));
  }

  /** Creates an object, or returns the one that has its name: a repeat finds what the first attempt has created. */
  async ensure(object: KubeManifest, options: CallOptions = {}): Promise<T> {
    const made = await this.create(object, options).catch(unlessCode("AlreadyExists"));
    return made ?? this.get({ namespace: object.metadata.namespace, name: nameOf(object) }, options);
  }

  /**
   * Replaces a whole object.
   *
   * @throws RametError `Conflict` if the object's resource version has changed
   */
  async update(object: KubeManifest, options: WriteOptions = {}): Promise<T> {
    const at = { namespace: this.#namespaceOf(object), name: nameOf(object), subresource: options.subresource };
    return this.read(await this.#write("update", at, object, { options, repeatable: false }));
  }

  /** JSON merge patch (RFC 7396): null removes a field, lists are replaced whole. */
  async mergePatch(at: ObjectName, patch: object, options: WriteOptions = {}): Promise<T> {
    return this.#patch(at, patch, { options, repeatable: true, contentType: "application/merge-patch+json" });
  }

  /** JSON patch (RFC 6902). Guard list positions by a `test`. @throws RametError `InvalidArgument` if a test fails */
  async jsonPatch(at: ObjectName, patch: JsonPatchOperation[], options: WriteOptions = {}): Promise<T> {
    // Repeated, a `test` would fail or a list would grow twice, so the request is not repeated after a lost response.
    return this.#patch(at, patch, { options, repeatable: false, contentType: "application/json-patch+json" });
  }

  /**
   * Server-side apply: sets these fields, and removes fields that this manager applied before and now omits.
   *
   * @throws RametError `Conflict` with the field and its manager, if another manager owns a field and `force` is not set
   */
  async apply(object: KubeManifest, { fieldManager, force, ...options }: ApplyOptions): Promise<T> {
    const at = { namespace: this.#namespaceOf(object), name: nameOf(object), subresource: options.subresource };
    return this.read(
      await this.#write("patch", at, object, {
        options,
        repeatable: true,
        contentType: "application/apply-patch+yaml",
        query: { fieldManager, force: force ?? false },
      }),
    );
  }

  /** Adds a finalizer and applies `patch` in the same write. @throws RametError `Conflict`: requeue the object */
  async addFinalizer(object: T, finalizer: string, patch: { metadata?: object; spec?: object } = {}): Promise<T> {
    const { uid, resourceVersion, finalizers = [] } = object.metadata;
    return this.mergePatch(object.metadata, {
      ...patch,
      // A merge patch replaces the whole list. The resourceVersion keeps it from removing the finalizer of another controller.
      metadata: { ...patch.metadata, uid, resourceVersion, finalizers: [...new Set([...finalizers, finalizer])] },
    });
  }

  /** Removes a finalizer. A deleted object is no error. @throws RametError `Conflict`: requeue the object */
  async removeFinalizer(object: T, finalizer: string): Promise<void> {
    const { uid, resourceVersion, finalizers = [] } = object.metadata;
    if (!finalizers.includes(finalizer)) return;
    const others = finalizers.filter((other) => other !== finalizer);
    const patch = { metadata: { uid, resourceVersion, finalizers: others } };
    await this.mergePatch(object.metadata, patch).catch(unlessCode("NotFound"));
  }

  /** Returns whether the object existed. @throws RametError `Conflict` if the precondition does not hold */
  async delete(at: ObjectName, options: DeleteOptions = {}): Promise<boolean> {
    const { uid, resourceVersion, propagationPolicy, gracePeriodSeconds } = options;
    const preconditions = defined({ uid, resourceVersion });
    const body = {
      apiVersion: "v1",
      kind: "DeleteOptions",
      ...defined({ preconditions, propagationPolicy, gracePeriodSeconds }),
    };
    try {
      // Without a precondition, a repeat could delete a new object of the same name.
      await this.#write("delete", this.#place(at), body, { options, repeatable: uid !== undefined });
      return true;
    } catch (error) {
      if (apiStatusOf(error)?.httpStatus === 404) return false;
      throw error;
    }
  }

  /** Posts to a subresource that is an operation: a Pod's `binding` or `eviction`, a service account's `token`. */
  async postSubresource(
    at: ObjectName,
    subresource: string,
    body: KubeManifest,
    options: CallOptions = {},
  ): Promise<unknown> {
    return this.#write("create", { ...this.#place(at), subresource }, body, { options, repeatable: false });
  }

  /** Reads a subresource, such as `scale`. */
  async getSubresource(at: ObjectName, subresource: string, options: CallOptions = {}): Promise<unknown> {
    const { client, ref: resource } = this;
    const path = { ...this.#place(at), subresource };
    return client.request({ verb: "get", resource, at: path, repeatable: true, signal: options.signal });
  }

  async #patch(at: ObjectName, patch: object, write: Write): Promise<T> {
    const path = { ...this.#place(at), subresource: write.options.subresource };
    return this.read(await this.#write("patch", path, patch, write));
  }

  async #write(verb: Verb, at: ResourcePath, body: object, write: Write): Promise<unknown> {
    const { options, query, ...more } = write;
    return this.client.request({
      verb,
      resource: this.ref,
      at,
      body,
      ...more,
      query: { ...query, dryRun: options.dryRun === true ? "All" : undefined },
      signal: options.signal,
    });
  }

  /** Uses the client's namespace if none is given. */
  #place({ namespace, name }: ObjectName): ResourcePath & ObjectName {
    // Without a name, the path would be that of all objects.
    if (name === "") throw new RametError("InvalidArgument", `The name of the ${this.ref.kind} is empty`);
    return this.ref.namespaced ? { namespace: namespace ?? this.client.namespace, name } : { name };
  }

  #namespaceOf(object: KubeManifest): string | undefined {
    return this.ref.namespaced ? (object.metadata.namespace ?? this.client.namespace) : undefined;
  }

  /** Parses an object from the server. @throws RametError `InvalidArgument` with the invalid field */
  read(value: unknown): T {
    try {
      return this.#parse(value);
    } catch (error) {
      const why = error instanceof z.ZodError ? z.prettifyError(error) : textOfError(error);
      throw new RametError("InvalidArgument", `The API server returned an invalid ${this.ref.kind}: ${why}`, {
        cause: error,
      });
    }
  }
}

interface Write {
  options: WriteOptions;
  repeatable: boolean;
  contentType?: string;
  query?: Record<string, string | boolean>;
}

const Page = z.looseObject({
  metadata: z.looseObject({ resourceVersion: z.string().default(""), continue: z.string().optional() }),
  items: z.array(z.unknown()).nullish(),
});

/** The items of a list have no `apiVersion` and `kind`, unlike objects that are read by name. */
function withKind(ref: ResourceRef, item: unknown): unknown {
  return typeof item === "object" && item !== null
    ? { apiVersion: apiVersionOf(ref), kind: ref.kind, ...item }
    : parseObject(item);
}

function nameOf(object: KubeManifest): string {
  if (object.metadata.name !== undefined) return object.metadata.name;
  throw new RametError("InvalidArgument", `Cannot write a ${object.kind}: it has no metadata.name`);
}
