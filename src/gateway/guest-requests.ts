import { guestClientPort } from "../api/wire/cell-api.ts";
import { Refusal } from "./refusal.ts";
import type { ClientRequest } from "./exchange.ts";

/** @throws Refusal if the gateway does not proxy the request to the guest for any client */
export function checkGuestRequest({ url, headers }: Pick<ClientRequest, "url" | "headers">): void {
  if (isInternal(url)) {
    // As E2B does: the path does not exist at this address.
    throw new Refusal(
      "Forbidden",
      "The gateway does not proxy this path: it is reserved for the sandbox's controller",
      {
        status: 404,
      },
    );
  }
  // After an upgrade, the gateway would not see the paths of further requests.
  if (headers.upgrade === undefined) return;
  throw new Refusal("Forbidden", `The gateway does not proxy protocol upgrades to the port ${guestClientPort}`, {
    hint: "Send the request without the header Upgrade; with Java's HttpClient, select Version.HTTP_1_1",
  });
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
