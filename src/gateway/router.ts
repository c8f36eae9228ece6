import type { IncomingMessage } from "node:http";
import { guestClientPort } from "../api/cell/cell-api.ts";
import { RametError } from "../base/errors.ts";
import type { ObjectStore } from "../kube/store.ts";
import type { Access } from "./access.ts";
import type { ClientOrigin } from "./client-origin.ts";
import type { Destination } from "./destination.ts";
import { tokenHeader } from "./forwarded-headers.ts";
import type { RoutedSandbox } from "./routed-sandbox.ts";
import type { Route } from "./upstreams.ts";

export interface RouterOptions {
  sandboxes: Pick<ObjectStore<RoutedSandbox>, "get" | "byUid">;
  access: Access;
}

/**
 * Authorizes a request and returns its route.
 * @throws RametError `Unauthorized` or `Forbidden`, which reveal nothing about the sandbox; `NotFound`, `SandboxNotReady`,
 *   `InvalidArgument`
 */
export async function routeOf(
  { sandboxes, access }: RouterOptions,
  { sandboxId, port }: Destination,
  { request, origin }: { request: IncomingMessage; origin: ClientOrigin },
): Promise<Route> {
  const { places, sandbox } = findSandbox(sandboxes, sandboxId);
  if (sandbox?.publicPorts.includes(port) !== true) await access.check(tokenOf(request), places, origin);
  if (sandbox === undefined) {
    if (places.length > 1) throw ambiguous(sandboxId, places);
    throw new RametError("NotFound", `There is no sandbox ${sandboxId}`, {
      hint: "List the sandboxes with: ramet sandbox ls -A",
    });
  }
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
  if (port === guestClientPort && isInternal(request.url)) {
    throw new RametError(
      "Forbidden",
      "The gateway does not proxy this path: it is reserved for the sandbox's controller",
    );
  }
  return { sandbox, port };
}

function ambiguous(id: string, places: Found["places"]): RametError {
  const names = places.map(({ namespace, name }) => `${name} in ${namespace}`).join(" and ");
  return new RametError("InvalidArgument", `The id ${id} is ambiguous: it matches the sandboxes ${names}`, {
    hint: "Use the UID of the Sandbox instead",
  });
}

function tokenOf({ headers }: IncomingMessage): string | undefined {
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

/** The sandboxes that an id can name. */
interface Found {
  /** Where these sandboxes are, or would be. Empty if the id contains no namespace and no sandbox has this UID. */
  places: { namespace: string; name: string }[];
  /** Absent if there is no such sandbox, or more than one. */
  sandbox?: RoutedSandbox;
}

/** Finds a sandbox by UID or by `<namespace>--<name>`, where both parts can contain `--`. */
export function findSandbox(store: Pick<ObjectStore<RoutedSandbox>, "get" | "byUid">, id: string): Found {
  const places = placesOf(id);
  const byName = places.flatMap(({ namespace, name }) => store.get(`${namespace}/${name}`) ?? []);
  const sandboxes = isUid.test(id) ? [store.byUid(id)].filter((found) => found !== undefined) : byName;
  const [sandbox, other] = sandboxes;
  if (sandbox === undefined) return { places: places.slice(0, 1) };
  return { places: sandboxes.map(placeOf), ...(other === undefined && { sandbox }) };
}

/** All ways to split the id into namespace and name. Empty for a UID. */
function placesOf(id: string): { namespace: string; name: string }[] {
  return [...id.matchAll(/(?=--)/g)].flatMap(({ index }) => {
    const [namespace, name] = [id.slice(0, index), id.slice(index + 2)];
    return isLabel.test(namespace) && isLabel.test(name) ? [{ namespace, name }] : [];
  });
}

function placeOf({ metadata: { namespace, name } }: RoutedSandbox): { namespace: string; name: string } {
  return { namespace, name };
}

const isUid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const isLabel = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;
