import type { IncomingHttpHeaders } from "node:http";
import { guestControlPort } from "../api/wire/cell-api.ts";
import { RametError } from "../base/errors.ts";

/** The sandbox port that a request is for. */
export interface Destination {
  /** `<namespace>--<name>`, or the UID of the Sandbox. */
  sandboxId: string;
  port: number;
}

/** A destination, and the path with its query that is requested there. */
export interface NamedDestination {
  destination: Destination;
  url: string;
}

/** The headers of E2B's SDKs and of OpenKruise's gateway. They take precedence over the host name. */
export const idHeader = "e2b-sandbox-id";
export const portHeader = "e2b-sandbox-port";

/**
 * Reads the destination from the headers `E2b-Sandbox-Id` and `E2b-Sandbox-Port`, from a host name such as
 * `8000-default--dev.example.org`, or from a path such as `/kruise/default--dev/8000/`.
 * @returns undefined if the request names no sandbox: it is for the gateway itself, or for the client API
 * @throws RametError `InvalidArgument` if the id or the port is missing, invalid or reserved
 */
export function destinationOf({
  url,
  headers,
}: {
  url: string;
  headers: IncomingHttpHeaders;
}): NamedDestination | undefined {
  if (isForClientApi(headers)) return undefined;
  const [id, port] = [headers[idHeader], headers[portHeader]].map((value) => (Array.isArray(value) ? value[0] : value));
  if (id !== undefined && port !== undefined) return { destination: validate(id, port), url };
  if (id !== undefined || port !== undefined) {
    const [given, missing] = id === undefined ? [portHeader, idHeader] : [idHeader, portHeader];
    throw new RametError("InvalidArgument", `The header ${missing} is missing: ${given} needs it`, {
      hint: namingHint,
    });
  }
  const [, ofHost, named] = /^(\d+)-([a-z0-9-]+)\./i.exec(headers.host ?? "") ?? [];
  if (ofHost !== undefined && named !== undefined) return { destination: validate(named, ofHost), url };
  return inPath(url);
}

/** Early SDKs for Python name the sandbox also in the headers of calls of the API, which only the host and the key tell apart. */
function isForClientApi(headers: IncomingHttpHeaders): boolean {
  return headers["x-api-key"] !== undefined && /^api\./i.test(headers.host ?? "");
}

/** The style of OpenKruise Agents. Below `/kruise/api` is its API, so that is no id. */
function inPath(url: string): NamedDestination | undefined {
  const [, id, port, rest = ""] = /^\/kruise\/([^/?#]+)\/(\d+)([/?#].*)?$/s.exec(url) ?? [];
  if (id === undefined || port === undefined || id === "api") return undefined;
  return { destination: validate(id, port), url: rest.startsWith("/") ? rest : `/${rest}` };
}

/** The hint for a request without a valid destination. */
export const namingHint =
  "Use the host name <port>-<namespace>--<name>.<domain>, or set the headers E2b-Sandbox-Id and E2b-Sandbox-Port";

function validate(id: string, text: string): Destination {
  const sandboxId = id.toLowerCase();
  const port = /^\d{1,5}$/.test(text) ? Number(text) : 0;
  if (!/^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/.test(sandboxId) || sandboxId.length > longestId) {
    throw new RametError("InvalidArgument", `${JSON.stringify(id.slice(0, 80))} is not a valid sandbox id`, {
      hint: namingHint,
    });
  }
  if (port < 1 || port > 65_535) {
    throw new RametError("InvalidArgument", `${JSON.stringify(text.slice(0, 80))} is not a valid port`, {
      hint: namingHint,
    });
  }
  if (port === guestControlPort) {
    throw new RametError("InvalidArgument", `The port ${port} is reserved for Ramet`);
  }
  return { sandboxId, port };
}

/** Two DNS labels and the separator `--`. */
const longestId = 63 + 2 + 63;
