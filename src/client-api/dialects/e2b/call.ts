import type { FastifyReply, FastifyRequest } from "fastify";
import type { Sandbox } from "../../../api/kinds/sandbox.ts";
import type { Caller, Callers, Need } from "../../keys/callers.ts";
import type { RequestRates } from "../../keys/request-rate.ts";
import type { ServiceParts } from "../../service/parts.ts";
import type { SandboxAccess } from "./sandbox-view.ts";

export interface E2bOptions {
  service: ServiceParts;
  callers: Callers;
  rates: RequestRates;
  /** Reads the secret of the guests' tokens. */
  guestSecret: () => Promise<Buffer>;
  /** The domain below which sandboxes have their host names. @default the client's own setting */
  domain?: string | undefined;
  /** The version of envd whose interface the guest has. */
  envdVersion: string;
  /** The longest life that a client can request at a time. */
  maxLifeSeconds: number;
}

/** A request of an authenticated client. */
export interface Call {
  request: FastifyRequest;
  reply: FastifyReply;
  caller: Caller;
  /** Aborts when the client has closed the connection. */
  signal: AbortSignal;
}

/** What the routes of the dialect share. */
export interface E2b extends E2bOptions {
  /** Adds a route whose handler runs for authenticated clients with these rights. */
  route: (method: "GET" | "POST" | "PUT" | "DELETE", path: string, needs: readonly Need[], handle: Handler) => void;
  /** @throws RametError `NotFound`, also for sandboxes of others */
  sandboxOf: (call: Call) => Promise<Sandbox>;
  accessTo: (sandbox: Sandbox) => Promise<SandboxAccess>;
}

export type Handler = (call: Call) => Promise<unknown>;
