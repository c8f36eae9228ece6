import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import type { JsonPatchOperation } from "../../../src/kube/resource-client.ts";
import { apiVersionOf, pathOf, type ResourceRef } from "../../../src/kube/resource-ref.ts";

export interface StandInObject {
  apiVersion: string;
  kind: string;
  metadata: { name: string; namespace: string; uid: string; resourceVersion: string; [field: string]: unknown };
  [field: string]: unknown;
}

export interface StandInRequest {
  method: string;
  /** `watch` for a GET with `watch=true`, `list` for a GET of the collection, otherwise the method in lower case. */
  verb: string;
  path: string;
  query: URLSearchParams;
  headers: IncomingMessage["headers"];
  body: unknown;
}

export interface Refusal {
  /** Selects the requests. @default all */
  when?: (request: StandInRequest) => boolean;
  times: number;
  /** 0: no response. */
  httpStatus: number;
  reason?: string;
  message?: string;
  headers?: Record<string, string>;
}

/**
 * A stand-in for an API server with one namespaced resource, over real HTTP. A test can make it misbehave, to prove how a
 * client handles that. It does not prove what a real server does: it has no validation, server-side apply, selectors or
 * authentication.
 */
export class StandInServer {
  readonly requests: StandInRequest[] = [];
  readonly #resource: ResourceRef;
  readonly #objects = new Map<string, StandInObject>();
  readonly #watchers = new Set<ServerResponse>();
  readonly #sockets = new Set<Socket>();
  readonly #refusals: Refusal[] = [];
  #log: { version: number; line: string }[] = [];
  #version = 0;
  #uids = 0;
  #silent = false;
  #http: Server | undefined;
  #port = 0;

  constructor(resource: ResourceRef) {
    this.#resource = resource;
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  get watchers(): number {
    return this.#watchers.size;
  }

  get(name: string): StandInObject | undefined {
    return this.#objects.get(name);
  }

  count(verb: string): number {
    return this.requests.filter((request) => request.verb === verb).length;
  }

  async start(): Promise<void> {
    const http = createServer((request, response) => {
      this.#serve(request, response).catch((error: unknown) => response.destroy(error as Error));
    });
    http.on("connection", (socket) => {
      this.#sockets.add(socket);
      socket.on("close", () => this.#sockets.delete(socket));
    });
    await new Promise<void>((resolve) => http.listen(this.#port, "127.0.0.1", resolve));
    this.#port = (http.address() as AddressInfo).port;
    this.#http = http;
  }

  /** Closes every connection and refuses new ones, like a crash. */
  async stop(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    this.#watchers.clear();
    await new Promise((resolve) => this.#http?.close(resolve));
  }

  /** Creates or changes an object and sends the event to the watchers. */
  put(name: string, fields: Record<string, unknown> = {}): StandInObject {
    const known = this.#objects.get(name);
    const object = this.#store(name, fields, known?.metadata);
    this.#notify(known === undefined ? "ADDED" : "MODIFIED", object);
    return object;
  }

  remove(name: string): StandInObject {
    const object = this.#objects.get(name);
    if (object === undefined) throw new Error(`the stand-in has no ${name}`);
    this.#objects.delete(name);
    const last = { ...object, metadata: { ...object.metadata, resourceVersion: this.#nextVersion() } };
    this.#notify("DELETED", last);
    return last;
  }

  /** Changes objects without sending events, as if the events were lost. */
  withoutEvents(change: () => void): void {
    this.#silent = true;
    change();
    this.#silent = false;
  }

  /** Sends any event to the watchers, such as a repeated one or one out of order. */
  send(type: string, object: object): void {
    for (const watcher of this.#watchers) watcher.write(`${JSON.stringify({ type, object })}\n`);
  }

  bookmark(): void {
    this.send("BOOKMARK", { kind: this.#resource.kind, metadata: { resourceVersion: this.#nextVersion() } });
  }

  /** Sends half an event and closes the connections. */
  breakWatches(): void {
    for (const watcher of this.#watchers)
      watcher.write('{"type":"ADDED","object":{"metadata":{"na', () => watcher.destroy());
    this.#watchers.clear();
  }

  endWatches(): void {
    for (const watcher of this.#watchers) watcher.end();
    this.#watchers.clear();
  }

  /** Keeps the watchers' connections open, but sends no more events. */
  stallWatches(): void {
    this.#watchers.clear();
  }

  /** Discards all events: watchers get an Expired error, and requests for an old version get status 410. */
  expire(): void {
    this.#nextVersion();
    this.#log = [];
    this.send("ERROR", status(410, "Expired", "too old resource version"));
    this.endWatches();
  }

  refuse(refusal: Refusal): void {
    this.#refusals.push(refusal);
  }

  async #serve(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const request = await read(incoming, pathOf(this.#resource));
    this.requests.push(request);
    const refusal = this.#refusals.find(({ when, times }) => times > 0 && (when?.(request) ?? true));
    if (refusal !== undefined) {
      refusal.times--;
      const { httpStatus, reason, message, headers } = refusal;
      if (httpStatus === 0) return;
      response.writeHead(httpStatus, headers).end(JSON.stringify(status(httpStatus, reason, message)));
      return;
    }
    if (request.path === "/readyz") response.end("ok");
    else if (request.verb === "watch") this.#watch(request, response);
    else if (request.verb === "list") answer(response, 200, this.#list(request));
    else answer(response, ...this.#one(request));
  }

  #list({ query }: StandInRequest): object {
    const limit = Number(query.get("limit") ?? 0);
    const from = Number(query.get("continue") ?? 0);
    const all = [...this.#objects.values()].sort((a, b) => a.metadata.name.localeCompare(b.metadata.name));
    const items = limit === 0 ? all.slice(from) : all.slice(from, from + limit);
    const more = from + items.length < all.length ? { continue: String(from + items.length) } : {};
    const metadata = { resourceVersion: opaque(this.#version), ...more };
    return { kind: `${this.#resource.kind}List`, apiVersion: apiVersionOf(this.#resource), metadata, items };
  }

  #watch({ query }: StandInRequest, response: ServerResponse): void {
    const from = unopaque(query.get("resourceVersion") ?? "");
    const oldest = this.#log[0]?.version ?? this.#version + 1;
    if (from + 1 < oldest) {
      answer(response, 410, status(410, "Expired", "too old resource version"));
      return;
    }
    response.writeHead(200, { "content-type": "application/json" });
    response.flushHeaders();
    for (const { version, line } of this.#log) if (version > from) response.write(line);
    this.#watchers.add(response);
    response.on("close", () => this.#watchers.delete(response));
  }

  #one({ verb, path, body }: StandInRequest): [number, object] {
    const parts = path.split("/");
    const at = parts.indexOf(this.#resource.plural);
    const sent = (body ?? {}) as StandInObject;
    const name = parts[at + 1] ?? sent.metadata.name;
    const known = this.#objects.get(name);
    if (verb === "post") {
      if (known !== undefined) return [409, status(409, "AlreadyExists", `${name} already exists`)];
      return [201, this.put(name, fieldsOf(sent))];
    }
    if (known === undefined) return [404, status(404, "NotFound", `${name} not found`)];
    if (verb === "get") return [200, known];
    if (verb === "delete") return [200, this.remove(name)];
    if (Array.isArray(body)) {
      const patched = jsonPatched(known, body as JsonPatchOperation[]);
      return patched === undefined
        ? [422, status(422, "Invalid", "test failed")]
        : [200, this.put(name, fieldsOf(patched))];
    }
    if (verb === "patch") return [200, this.put(name, merged(known, fieldsOf(sent)))];
    if (sent.metadata.resourceVersion !== known.metadata.resourceVersion) {
      return [409, status(409, "Conflict", "the object has been modified")];
    }
    return [200, this.put(name, fieldsOf(sent))];
  }

  #store(name: string, fields: Record<string, unknown>, known?: StandInObject["metadata"]): StandInObject {
    const object: StandInObject = {
      apiVersion: apiVersionOf(this.#resource),
      kind: this.#resource.kind,
      ...fields,
      metadata: {
        namespace: "default",
        managedFields: [{ manager: "somebody" }],
        generation: 1,
        ...known,
        name,
        uid: known?.uid ?? `uid-${++this.#uids}`,
        resourceVersion: this.#nextVersion(),
      },
    };
    this.#objects.set(name, object);
    return object;
  }

  #notify(type: string, object: StandInObject): void {
    const line = `${JSON.stringify({ type, object })}\n`;
    if (this.#silent) return;
    this.#log.push({ version: this.#version, line });
    for (const watcher of this.#watchers) watcher.write(line);
  }

  #nextVersion(): string {
    return opaque(++this.#version);
  }
}

/** Not a number, so that a client that parses it as one fails. */
function opaque(version: number): string {
  return `v${version.toString(36)}.`;
}

function unopaque(text: string): number {
  return Number.parseInt(text.slice(1, -1), 36);
}

function status(code: number, reason = "", message = ""): object {
  return { kind: "Status", apiVersion: "v1", status: "Failure", code, reason, message };
}

function answer(response: ServerResponse, code: number, body: object): void {
  response.writeHead(code, { "content-type": "application/json" }).end(JSON.stringify(body));
}

function fieldsOf({ metadata: _, ...fields }: StandInObject): Record<string, unknown> {
  return fields;
}

function merged(known: Record<string, unknown>, patch: Record<string, unknown>): Record<string, unknown> {
  const result = { ...known };
  for (const [field, value] of Object.entries(patch)) {
    const before = result[field];
    const nested = typeof value === "object" && value !== null && !Array.isArray(value);
    if (nested) result[field] = merged((before ?? {}) as Record<string, unknown>, value as Record<string, unknown>);
    else if (value === null) Reflect.deleteProperty(result, field);
    else result[field] = value;
  }
  return result;
}

/** Supports only the operations in use: on object members, not on list items. */
function jsonPatched(known: StandInObject, patch: JsonPatchOperation[]): StandInObject | undefined {
  const result = structuredClone(known);
  for (const { op, path, value } of patch) {
    const fields = path.split("/").slice(1);
    const last = fields.pop() ?? "";
    const parent = fields.reduce<Record<string, unknown>>((at, field) => (at[field] ?? {}) as typeof at, result);
    if (op === "test" && (parent[last] ?? null) !== value) return undefined;
    if (op === "remove" && !Reflect.deleteProperty(parent, last)) return undefined;
    if (op === "add" || op === "replace") parent[last] = value;
  }
  return result;
}

async function read(incoming: IncomingMessage, collection: string): Promise<StandInRequest> {
  const url = new URL(incoming.url ?? "/", "http://stand-in");
  const method = incoming.method ?? "GET";
  let text = "";
  for await (const chunk of incoming) text += String(chunk);
  const plural = collection.slice(collection.lastIndexOf("/"));
  const verb =
    url.searchParams.get("watch") === "true"
      ? "watch"
      : method === "GET" && url.pathname.endsWith(plural)
        ? "list"
        : method.toLowerCase();
  return {
    method,
    verb,
    path: url.pathname,
    query: url.searchParams,
    headers: incoming.headers,
    body: text === "" ? undefined : JSON.parse(text),
  };
}
