import type { Clock } from "../base/clock.ts";
import type { ResourcePath, ResourceRef } from "./resource-ref.ts";
import type { HttpResponse } from "./transport.ts";

/** Sends requests to one API server: what resources and watches need of `KubeClient`. */
export interface ApiCaller {
  /** The namespace of whoever names none. */
  readonly namespace: string;
  readonly clock: Clock;
  /** 0 ≤ x < 1. */
  readonly random: () => number;
  /** Sends a request and reads the answer's JSON. */
  request(request: ApiRequest): Promise<unknown>;
  /** Opens a stream; the caller reads it to its end or aborts the signal. */
  stream(request: ApiRequest): Promise<HttpResponse["body"]>;
}

export interface ApiRequest {
  verb: Verb;
  resource: ResourceRef;
  at: ResourcePath;
  query?: Record<string, string | number | boolean | undefined>;
  body?: unknown;
  /** @default application/json */
  contentType?: string;
  /** Whether the request may be repeated although it may have been carried out. */
  repeatable: boolean;
  signal?: AbortSignal | undefined;
}

/** Kubernetes' verbs, as RBAC names them. */
export type Verb = "get" | "list" | "watch" | "create" | "update" | "patch" | "delete";
