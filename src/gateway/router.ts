import type { KeyValue } from "../api/keys/api-key-rules.ts";
import { guestClientPort, reportsPort } from "../api/wire/cell-api.ts";
import type { Clock } from "../base/clock.ts";
import { defined } from "../base/defined.ts";
import { RametError, resultOr } from "../base/errors.ts";
import { valueIdIn } from "../cell/client/cell-token.ts";
import type { ObjectStore } from "../kube/store.ts";
import type { Access, AccessQuestion, SandboxRight } from "./access.ts";
import type { ClientOrigin } from "./client-origin.ts";
import type { Destination } from "./destination.ts";
import type { ClientRequest, Exchange } from "./exchange.ts";
import { upgradeHint } from "./forward-upgrade.ts";
import { guestTokenHeader, tokenHeader } from "./forwarded-headers.ts";
import { type Pass, authorizeByOwnTokens, entryPass, guestPass } from "./own-tokens.ts";
import { Refusal } from "./refusal.ts";
import {
  type Found,
  type RoutedSandbox,
  findSandbox,
  isEntrance,
  isPublicPort,
  isUid,
  sandboxTitle,
  uidOf,
} from "./routed-sandbox.ts";
import type { SandboxTokens } from "./sandbox-tokens.ts";
import { type ServingSandboxes, type WaitingClient, isServing } from "./serving-sandboxes.ts";
import { tokenHint } from "./token-verifier.ts";
import type { Route } from "./upstreams.ts";

export interface RouterOptions {
  sandboxes: Pick<ObjectStore<RoutedSandbox>, "get" | "byUid">;
  /** Lets requests wait for sandboxes that cannot serve yet. */
  serving: Pick<ServingSandboxes, "appeared" | "serving">;
  access: Access;
  /**
   * The sandboxes' own tokens, for clients that present them, and for clients with the right `exec`.
   * @default only tokens for gateways count, and the gateway adds no tokens
   */
  sandboxTokens?: SandboxTokens | undefined;
  clock: Clock;
}

interface Admission {
  /** The right of a token for gateways. @default the client has none, or needs none */
  right?: SandboxRight | undefined;
  /** What the client has of the sandbox's own tokens. */
  pass?: Pass | undefined;
}

/**
 * Authorizes a request and returns its route. It waits for a sandbox that cannot serve yet, but resumes one only for a client that
 * may reach the port.
 * @param onAdmitted called with the value of an API key on which the request depends, before it waits
 * @throws RametError `Unauthorized` or `Forbidden`, which reveal nothing about the sandbox; `NotFound`, `SandboxNotReady`,
 *   `InvalidArgument`, `Unavailable`, `Conflict`, `Canceled`
 */
export async function routeOf(
  options: RouterOptions,
  destination: Destination,
  client: Pick<Exchange, "request" | "response" | "origin">,
  onAdmitted: (value: KeyValue) => void,
): Promise<Route> {
  const { sandboxId, port } = destination;
  if (port === guestClientPort) checkGuestRequest(client.request);
  const found = await foundSandbox(options, sandboxId, client);
  const asking = { ...client, found };
  const admission = await admit(options, destination, asking);
  const { right, pass } = admission;
  const { sandbox: known } = found;
  if (known === undefined) throw unknown(sandboxId);
  if (pass?.value !== undefined) onAdmitted(pass.value);
  const sandbox =
    isServing(known) && !known.isMoving
      ? known
      : await whileConnected(client, (waiting) =>
          options.serving.serving(known, waiting, () => mayResume(options, destination, asking, admission)),
        );
  if (sandbox === undefined) throw notReady(destination, known);
  const title = sandboxTitle(sandboxId, sandbox);
  const isExec = right === "exec" && port === guestClientPort;
  const guestToken = isExec ? await guestTokenFor(options, sandbox, client.request) : pass?.guestToken;
  return { sandbox, title, port, ...defined({ guestToken, url: pass?.url }) };
}

async function foundSandbox(
  { sandboxes, serving }: RouterOptions,
  sandboxId: string,
  client: Pick<Exchange, "response" | "origin">,
): Promise<Found> {
  const found = findSandbox(sandboxes, sandboxId);
  const uid = uidOf(sandboxId);
  if (found.sandbox !== undefined || uid === undefined) return found;
  const appeared = await whileConnected(client, (waiting) => serving.appeared(uid, waiting));
  return appeared === undefined ? found : findSandbox(sandboxes, sandboxId);
}

/** Runs a wait that ends when the client disconnects. */
async function whileConnected<T>(
  { response: { body }, origin: { address } }: Pick<Exchange, "response" | "origin">,
  wait: (client: WaitingClient) => Promise<T>,
): Promise<T> {
  const left = new AbortController();
  const onClose = (): void => {
    left.abort();
  };
  if (body.destroyed) onClose();
  body.once("close", onClose);
  try {
    return await wait({ address, signal: left.signal });
  } finally {
    body.off("close", onClose);
  }
}

/**
 * Whether a client may resume the sandbox, and not only connect to it. Through some ports, a client without any token gets an answer:
 * the guest's health, for example.
 */
async function mayResume(
  { sandboxTokens, clock }: RouterOptions,
  { sandboxId, port }: Destination,
  { request, found }: Client,
  { right, pass }: Admission,
): Promise<boolean> {
  // It asks whether the sandbox runs. E2B's SDKs ask that when a stream breaks, as each does in a pause.
  if (port === guestClientPort && healthPath.test(request.url)) return false;
  if (right !== undefined || pass !== undefined || !isEntrance(port)) return true;
  if (sandboxTokens === undefined) return false;
  const question = { sandboxId, found, port, request };
  const own = await authorizeByOwnTokens({ tokens: sandboxTokens, clock }, question);
  return own !== undefined && own !== "open";
}

const healthPath = /^\/health(\?|$)/;

function notReady({ sandboxId }: Destination, sandbox: RoutedSandbox): RametError {
  const { namespace, name } = sandbox.metadata;
  // E2B's SDKs recognize by "was not found" that a sandbox does not run, and does not start either.
  const isOver = sandbox.isPaused || sandbox.hasEnded;
  const state = isOver ? "was not found among those that run" : "is not ready";
  const why = `The ${sandboxTitle(sandboxId, sandbox)} ${state}: its phase is ${sandbox.phase}`;
  const hint = isUid(sandboxId) ? undefined : `Find out why with: ramet explain sandbox/${name} -n ${namespace}`;
  return new RametError("SandboxNotReady", why, { hint, retryable: true });
}

interface Client {
  request: ClientRequest;
  origin: ClientOrigin;
  found: Found;
}

/** @throws RametError `Unauthorized`, `Forbidden`, `NotFound`, `Unavailable` */
async function admit(options: RouterOptions, destination: Destination, client: Client): Promise<Admission> {
  const { sandboxTokens, clock } = options;
  const { sandboxId, port } = destination;
  const { request, found } = client;
  const token = tokenOf(request);
  const canEnter = port === guestClientPort && sandboxTokens !== undefined;
  // The guest's port can be public too, because the guest requires its own token.
  const needsNone = isPublic(found, port) && (token === undefined || !canEnter);
  const own = token === undefined && !needsNone ? await ownPass(options, destination, client) : undefined;
  if (own !== undefined) return own === "open" ? {} : { pass: own };
  const right = needsNone ? undefined : await rightOf(options, destination, client);
  // The guest requires a token, however the gateway admits its client.
  if (sandboxTokens === undefined || (right === "exec" && canEnter)) return { right };
  const question = { sandboxId, found, port, request };
  return { right, pass: await entryPass({ tokens: sandboxTokens, clock }, question).catch(unlessOwn(request)) };
}

/** Lets the guest decide about a token that no client got with an API key, if the gateway cannot read the secret of the guests. */
function unlessOwn({ headers }: ClientRequest): (error: unknown) => undefined {
  return (error) => {
    const given = headers[guestTokenHeader];
    if (typeof given !== "string" || valueIdIn(given) !== undefined) throw error;
    return undefined;
  };
}

function isPublic({ sandbox }: Found, port: number): boolean {
  return sandbox !== undefined && isPublicPort(sandbox, port);
}

/** Returns the right of the client's token for gateways; undefined if it needs none. @throws RametError */
async function rightOf(
  { sandboxTokens, access }: RouterOptions,
  { sandboxId, port }: Destination,
  { request, origin, found }: Client,
): Promise<SandboxRight | undefined> {
  const canEnter = port === guestClientPort && sandboxTokens !== undefined;
  const rights = canEnter ? (["exec", "proxy"] as const) : rightsFor(port, request.url);
  return access.check({ token: tokenOf(request), places: found.places, rights }, origin).catch((error: unknown) => {
    const { code } = RametError.from(error);
    if (isPublic(found, port) && (code === "Forbidden" || code === "Unauthorized")) return undefined;
    // The refusal names the sandbox, and a client that has only a UID must not learn whose it is.
    throw isUid(sandboxId) && code === "Forbidden" ? unknown(sandboxId) : error;
  });
}

/** Returns what a client without a token for gateways has of the sandbox itself; `open` if it needs nothing. @throws RametError */
async function ownPass(
  { sandboxTokens, clock }: RouterOptions,
  { sandboxId, port }: Destination,
  { request, found }: Client,
): Promise<Pass | "open" | undefined> {
  if (found.sandbox === undefined && isUid(sandboxId)) throw unknown(sandboxId);
  if (sandboxTokens === undefined) return undefined;
  const question = { sandboxId, found, port, request };
  if (port === reportsPort) return found.sandbox && guestPass({ tokens: sandboxTokens }, question);
  const pass = await authorizeByOwnTokens({ tokens: sandboxTokens, clock }, question);
  if (pass === undefined && isUid(sandboxId)) throw notPublic(port);
  return pass;
}

/** The log can have more than what clients of ports see, as the output of commands does. */
function rightsFor(port: number, url = "/"): AccessQuestion["rights"] {
  if (port !== reportsPort) return ["proxy"];
  return egressPaths.has(url) ? ["proxy", "exec"] : ["exec"];
}

const egressPaths: ReadonlySet<string> = new Set(["/", "/metrics"]);

/** @returns undefined if the gateway cannot read the secret of the guests and the client sends a token itself */
async function guestTokenFor(
  { sandboxTokens }: RouterOptions,
  { metadata }: RoutedSandbox,
  { headers }: ClientRequest,
): Promise<string | undefined> {
  try {
    return await sandboxTokens?.guestTokenOf(metadata.uid);
  } catch (error) {
    if (headers[guestTokenHeader] === undefined) throw error;
    return undefined;
  }
}

/** The status is E2B's. A client that does not know the UID gets 401, whether or not the sandbox exists. */
function notPublic(port: number): Refusal {
  return new Refusal("Forbidden", `The port ${port} of this sandbox is not public`, {
    hint: `Send the sandbox's traffic access token in the header E2b-Traffic-Access-Token. ${tokenHint}`,
  });
}

function unknown(id: string): RametError {
  return new RametError("NotFound", "The sandbox was not found", {
    hint: isUid(id)
      ? "List the sandboxes with: ramet sandbox ls -A. To connect, a client also needs the verb create on sandboxes/proxy or sandboxes/exec in the sandbox's namespace"
      : "List the sandboxes with: ramet sandbox ls -A",
  });
}

function tokenOf({ headers }: ClientRequest): string | undefined {
  const value = headers[tokenHeader];
  return typeof value === "string" && value !== "" ? value : undefined;
}

/** @throws Refusal if the gateway does not proxy the request to the guest for any client */
function checkGuestRequest({ url, headers }: Pick<ClientRequest, "url" | "headers">): void {
  if (isInternal(url)) {
    // As E2B does: the path does not exist at this address.
    const what = "The gateway does not proxy this path: it is reserved for the sandbox's controller";
    throw new Refusal("Forbidden", what, { status: 404 });
  }
  // After an upgrade, the gateway would not see the paths of further requests.
  if (headers.upgrade === undefined) return;
  const what = `The gateway does not proxy protocol upgrades to the port ${guestClientPort}`;
  throw new Refusal("Forbidden", what, { hint: upgradeHint });
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

/** Normalizes the path first, because a server can accept `//init` and `/%69nit` as `/init`. */
function isInternal(url = "/"): boolean {
  const path = url.split(/[?#]/, 1)[0] ?? "";
  const [, target = path] = /^[a-z]+:\/\/[^/]*(\/.*)$/i.exec(path) ?? [];
  return internalPaths.has(
    resultOr(() => decodeURIComponent(target), target)
      .replaceAll(/\/+/g, "/")
      .replace(/(?<=.)\/$/, "")
      .toLowerCase(),
  );
}
