import { guestClientPort, reportsPort } from "../api/cell/cell-api.ts";
import { RametError } from "../base/errors.ts";
import type { ObjectStore } from "../kube/store.ts";
import type { Access, AccessQuestion, SandboxRight } from "./access.ts";
import type { ClientOrigin } from "./client-origin.ts";
import type { Destination } from "./destination.ts";
import type { ClientRequest } from "./exchange.ts";
import { guestTokenHeader, tokenHeader } from "./forwarded-headers.ts";
import type { GuestTokens } from "./guest-tokens.ts";
import type { RoutedSandbox } from "./routed-sandbox.ts";
import type { Route } from "./upstreams.ts";

export interface RouterOptions {
  sandboxes: Pick<ObjectStore<RoutedSandbox>, "get" | "byUid">;
  access: Access;
  /** The tokens of guests, for clients with the right `exec`. @default the gateway adds no tokens */
  guestTokens?: GuestTokens | undefined;
}

/**
 * Authorizes a request and returns its route.
 * @throws RametError `Unauthorized` or `Forbidden`, which reveal nothing about the sandbox; `NotFound`, `SandboxNotReady`,
 *   `InvalidArgument`
 */
export async function routeOf(
  options: RouterOptions,
  destination: Destination,
  client: { request: ClientRequest; origin: ClientOrigin },
): Promise<Route> {
  const { sandboxId, port } = destination;
  const found = findSandbox(options.sandboxes, sandboxId);
  const right = await rightOf(options, destination, { ...client, found });
  const { sandbox } = found;
  if (sandbox === undefined) throw unknown(sandboxId);
  if (!sandbox.isReady || sandbox.ip === undefined) {
    const { namespace, name } = sandbox.metadata;
    throw new RametError(
      "SandboxNotReady",
      `The sandbox ${name} in ${namespace} is not ready: its phase is ${sandbox.phase}`,
      {
        hint: `See why with: ramet sandbox get ${name} -n ${namespace} -o yaml`,
        retryable: true,
      },
    );
  }
  if (port === guestClientPort) checkGuestRequest(client.request);
  const guestToken =
    right === "exec" && port === guestClientPort ? await guestTokenFor(options, sandbox, client.request) : undefined;
  return { sandbox, port, ...(guestToken !== undefined && { guestToken }) };
}

/**
 * Returns the right with which the client reaches the port; undefined for a public port, which requires none.
 * @throws RametError `Unauthorized`, `Forbidden`, `NotFound`
 */
async function rightOf(
  { access, guestTokens }: RouterOptions,
  { sandboxId, port }: Destination,
  { request, origin, found }: { request: ClientRequest; origin: ClientOrigin; found: Found },
): Promise<SandboxRight | undefined> {
  const { places, sandbox } = found;
  const token = tokenOf(request);
  const isPublic = port !== reportsPort && sandbox?.publicPorts.includes(port) === true;
  const canEnter = port === guestClientPort && guestTokens !== undefined;
  // The guest's port can be public too, because the guest requires its own token.
  if (isPublic && (token === undefined || !canEnter)) return undefined;
  const rights = canEnter ? (["exec", "proxy"] as const) : rightsFor(port, request.url);
  return access.check({ token, places, rights }, origin).catch((error: unknown) => {
    const { code } = RametError.from(error);
    if (isPublic && (code === "Forbidden" || code === "Unauthorized")) return undefined;
    // The refusal names the sandbox, and a client that has only a UID must not learn whose it is.
    throw isUid.test(sandboxId) && code === "Forbidden" ? unknown(sandboxId) : error;
  });
}

/** The log can have more than what clients of ports see, as the output of commands does. */
function rightsFor(port: number, url = "/"): AccessQuestion["rights"] {
  if (port !== reportsPort) return ["proxy"];
  return egressPaths.has(url) ? ["proxy", "exec"] : ["exec"];
}

const egressPaths: ReadonlySet<string> = new Set(["/", "/metrics"]);

/** @returns undefined if the gateway cannot read the secret of the guests and the client sends a token itself */
async function guestTokenFor(
  { guestTokens }: RouterOptions,
  { metadata }: RoutedSandbox,
  { headers }: ClientRequest,
): Promise<string | undefined> {
  try {
    return await guestTokens?.tokenOf(metadata.uid);
  } catch (error) {
    if (headers[guestTokenHeader] === undefined) throw error;
    return undefined;
  }
}

function unknown(id: string): RametError {
  return new RametError("NotFound", `There is no sandbox ${id}`, {
    hint: isUid.test(id)
      ? "List the sandboxes with: ramet sandbox ls -A. To connect, a client also needs the verb create on sandboxes/proxy or sandboxes/exec in the sandbox's namespace"
      : "List the sandboxes with: ramet sandbox ls -A",
  });
}

function tokenOf({ headers }: ClientRequest): string | undefined {
  const value = headers[tokenHeader];
  return typeof value === "string" && value !== "" ? value : undefined;
}

/**
 * Paths that envd serves only to its orchestrator. An image can contain its own envd, which then replaces the guest.
 * (Source: the routes of envd in e2b-dev/infra, 54693ff3.)
 */
const internalPaths: ReadonlySet<string> = new Set([
  "/init",
  "/freeze",
  "/unfreeze",
  "/fsfreeze",
  "/fsthaw",
  "/collapse",
  "/upgrade",
]);

/** @throws RametError `Forbidden` */
function checkGuestRequest({ url, headers }: ClientRequest): void {
  if (isInternal(url)) {
    throw new RametError(
      "Forbidden",
      "The gateway does not proxy this path: it is reserved for the sandbox's controller",
    );
  }
  // After an upgrade, the gateway would not see the paths of further requests.
  if (headers.upgrade === undefined) return;
  throw new RametError("Forbidden", `The gateway does not proxy protocol upgrades to the port ${guestClientPort}`, {
    hint: "Send the request without the header Upgrade; with Java's HttpClient, select Version.HTTP_1_1",
  });
}

/** Normalizes the path first, because a server can accept `//init` and `/%69nit` as `/init`. */
function isInternal(url = "/"): boolean {
  const path = url.split(/[?#]/, 1)[0] ?? "";
  const [, target = path] = /^[a-z]+:\/\/[^/]*(\/.*)$/i.exec(path) ?? [];
  return internalPaths.has(
    decoded(target)
      .replaceAll(/\/+/g, "/")
      .replace(/(?<=.)\/$/, "")
      .toLowerCase(),
  );
}

function decoded(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    return path;
  }
}

/** The sandbox that an id names. */
interface Found {
  /** Where the sandbox is, or would be. Empty if the id contains no namespace and no sandbox has this UID. */
  places: { namespace: string; name: string }[];
  sandbox?: RoutedSandbox;
}

/**
 * Finds a sandbox by UID or by `<namespace>--<name>`.
 * @throws RametError `InvalidArgument` if the id can be split in two ways, whether or not these sandboxes exist: otherwise a
 *   namespace could take over the host name of another namespace's deleted sandbox
 */
export function findSandbox(store: Pick<ObjectStore<RoutedSandbox>, "get" | "byUid">, id: string): Found {
  if (isUid.test(id)) {
    const sandbox = store.byUid(id);
    if (sandbox === undefined) return { places: [] };
    const { namespace, name } = sandbox.metadata;
    return { places: [{ namespace, name }], sandbox };
  }
  const places = placesOf(id);
  const [place] = places;
  if (place === undefined) return { places };
  if (places.length > 1) {
    throw new RametError("InvalidArgument", `The id ${id} is ambiguous: it contains -- more than once`, {
      hint: "Use the UID of the Sandbox instead",
    });
  }
  const sandbox = store.get(`${place.namespace}/${place.name}`);
  return { places, ...(sandbox !== undefined && { sandbox }) };
}

/** All ways to split the id into namespace and name. */
function placesOf(id: string): { namespace: string; name: string }[] {
  return [...id.matchAll(/(?=--)/g)].flatMap(({ index }) => {
    const [namespace, name] = [id.slice(0, index), id.slice(index + 2)];
    return isLabel.test(namespace) && isLabel.test(name) ? [{ namespace, name }] : [];
  });
}

const isUid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const isLabel = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;
