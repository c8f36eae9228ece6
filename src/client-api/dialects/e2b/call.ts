import type { Sandbox } from "../../../api/kinds/sandbox.ts";
import type { Callers, RequestRates } from "../../keys/callers.ts";
import { type Call, type Route, routesFor } from "../../routes/route.ts";
import type { GuestOf } from "../../service/guest-access.ts";
import type { ClientSecrets } from "../../service/client-secrets.ts";
import type { RegistrySecrets } from "../../service/registry-secrets.ts";
import type { ServiceParts } from "../../service/parts.ts";
import type { ReadSandbox } from "../../service/read-sandbox.ts";
import type { SandboxAccess } from "./answers.ts";

export type { Call };
export type E2bRoute = Route<E2b>;

/** Makes a route of the dialect. */
export const route = routesFor<E2b>();

export interface E2bOptions {
  service: ServiceParts;
  callers: Callers;
  rates: RequestRates;
  /** Reads the secret of the guests' tokens. */
  guestSecret: () => Promise<Buffer>;
  guestOf: GuestOf;
  readSandbox: ReadSandbox;
  secrets: ClientSecrets;
  registrySecrets: RegistrySecrets;
  /** The domain below which sandboxes have their host names. @default the client's own setting */
  domain?: string | undefined;
  /** The version of envd whose interface the guest has. */
  envdVersion: string;
  /** The longest life that a client can request at a time. */
  maxLifeSeconds: number;
}

/** The objects that the routes of the dialect share. */
export interface E2b extends E2bOptions {
  /** @throws RametError `NotFound`, also for sandboxes of others */
  sandboxOf: (call: Call) => Promise<Sandbox>;
  accessTo: (sandbox: Sandbox) => Promise<SandboxAccess>;
}
