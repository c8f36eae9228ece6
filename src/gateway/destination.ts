import type { IncomingHttpHeaders } from "node:http";
import { guestControlPort } from "../api/cell/cell-api.ts";
import { RametError } from "../base/errors.ts";

/** Where in the cluster a request is to go. */
export interface Destination {
  /** `<namespace>--<name>`, or the UID of the Sandbox. */
  sandboxId: string;
  port: number;
}

/** Names and forms are those of E2B's SDKs and of OpenKruise's gateway: headers, which win, or the first label of the host. */
export const idHeader = "e2b-sandbox-id";
export const portHeader = "e2b-sandbox-port";

/**
 * Reads it from the headers `E2b-Sandbox-Id` and `E2b-Sandbox-Port`, else from a host like `8000-default--dev.example.org`.
 * @returns undefined for a request that names no sandbox, and is for the gateway itself
 * @throws RametError `InvalidArgument` for one that names it in part, or a port that nobody may reach
 */
export function destinationOf(headers: IncomingHttpHeaders): Destination | undefined {
  const [id, port] = [headers[idHeader], headers[portHeader]].map((value) => (Array.isArray(value) ? value[0] : value));
  if (id !== undefined && port !== undefined) return legal(id, port);
  if (id !== undefined || port !== undefined) {
    const [given, missing] = id === undefined ? [portHeader, idHeader] : [idHeader, portHeader];
    throw new RametError("InvalidArgument", `The header ${given} is given without ${missing}`, { hint: namingHint });
  }
  const [, ofHost, sandboxId] = /^(\d+)-([a-z0-9-]+)\./i.exec(headers.host ?? "") ?? [];
  return ofHost === undefined || sandboxId === undefined ? undefined : legal(sandboxId, ofHost);
}

/** How a request names a sandbox, for who did not. */
export const namingHint =
  "Name a sandbox and a port by the host, <port>-<namespace>--<name>.<domain>, or by the headers E2b-Sandbox-Id and E2b-Sandbox-Port";

function legal(id: string, text: string): Destination {
  const sandboxId = id.toLowerCase();
  const port = /^\d{1,5}$/.test(text) ? Number(text) : 0;
  if (!/^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/.test(sandboxId) || sandboxId.length > longestId) {
    throw new RametError("InvalidArgument", `No sandbox can have the id ${JSON.stringify(id.slice(0, 80))}`, {
      hint: namingHint,
    });
  }
  if (port < 1 || port > 65_535) {
    throw new RametError("InvalidArgument", `There is no port ${JSON.stringify(text.slice(0, 80))}`, {
      hint: namingHint,
    });
  }
  if (port === guestControlPort) {
    throw new RametError("InvalidArgument", `The port ${port} of a sandbox is Ramet's own`);
  }
  return { sandboxId, port };
}

/** Two DNS labels and what stands between them. */
const longestId = 63 + 2 + 63;
