import type { IncomingMessage } from "node:http";
import { guestClientPort } from "../api/cell/cell-api.ts";
import { RametError } from "../base/errors.ts";
import type { ObjectStore } from "../kube/store.ts";
import type { Access } from "./access.ts";
import type { Destination } from "./destination.ts";
import { tokenHeader } from "./forwarded-headers.ts";
import type { RoutedSandbox } from "./routed-sandbox.ts";
import type { Route } from "./upstreams.ts";

export interface RouterOptions {
  sandboxes: Pick<ObjectStore<RoutedSandbox>, "get" | "byUid">;
  access: Access;
}

/**
 * The way of a request into a sandbox, for who may go it.
 * @throws RametError `Unauthorized` and `Forbidden` before anything is told of the sandbox; `NotFound`, `SandboxNotReady`
 */
export async function routeOf(
  { sandboxes, access }: RouterOptions,
  { sandboxId, port }: Destination,
  request: IncomingMessage,
): Promise<Route> {
  const { places, sandbox } = findSandbox(sandboxes, sandboxId);
  if (sandbox?.publicPorts.includes(port) !== true) await access.check(tokenOf(request), places);
  if (sandbox === undefined) {
    if (places.length > 1) throw ambiguous(sandboxId, places);
    throw new RametError("NotFound", `There is no sandbox ${sandboxId}`, {
      hint: "List those that are there with: ramet sandbox ls -A",
    });
  }
  if (!sandbox.isReady || sandbox.ip === undefined) {
    const { namespace, name } = sandbox.metadata;
    throw new RametError("SandboxNotReady", `The sandbox ${name} in ${namespace} is ${sandbox.phase}, and not ready`, {
      hint: `See why with: ramet sandbox get ${name} -n ${namespace} -o yaml`,
      retryable: true,
    });
  }
  if (port === guestClientPort && isInternal(request.url)) {
    throw new RametError("Forbidden", "That is for whoever runs the sandbox, and nobody reaches it through a gateway");
  }
  return { sandbox, port };
}

function ambiguous(id: string, places: Found["places"]): RametError {
  const names = places.map(({ namespace, name }) => `${name} in ${namespace}`).join(" and as ");
  return new RametError("InvalidArgument", `The id ${id} can be read as ${names}, and both are there`, {
    hint: "Use the UID of the Sandbox instead",
  });
}

function tokenOf({ headers }: IncomingMessage): string | undefined {
  const value = headers[tokenHeader];
  return typeof value === "string" && value !== "" ? value : undefined;
}

/**
 * What envd serves to its orchestrator alone: an image may bring its own envd in place of the guest
 * (the routes of e2b-dev/infra's envd, 54693ff3).
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

/** However it is written: a server may take `//init` and `/%69nit` for it. */
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

/** What an id stands for. */
interface Found {
  /** Where such sandboxes are, or where one would be. None: the id names no namespace, and there is none of this UID. */
  places: { namespace: string; name: string }[];
  /** Absent: there is none, or more than one. */
  sandbox?: RoutedSandbox;
}

/** Finds the sandbox that an id names: a UID, or `<namespace>--<name>`, of which either may have `--` in itself. */
export function findSandbox(store: Pick<ObjectStore<RoutedSandbox>, "get" | "byUid">, id: string): Found {
  const places = placesOf(id);
  const byName = places.flatMap(({ namespace, name }) => store.get(`${namespace}/${name}`) ?? []);
  const sandboxes = isUid.test(id) ? [store.byUid(id)].filter((found) => found !== undefined) : byName;
  const [sandbox, other] = sandboxes;
  if (sandbox === undefined) return { places: places.slice(0, 1) };
  return { places: sandboxes.map(placeOf), ...(other === undefined && { sandbox }) };
}

/** As what the id can be read, a UID as nothing. */
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
