import { guestClientPort } from "../../../api/wire/cell-api.ts";
import { annotations } from "../../../api/names/labels.ts";
import { requestHost } from "../../../api/names/request-host.ts";
import { RametError } from "../../../base/errors.ts";
import type { Network } from "./schemas.ts";

/**
 * The annotations with which gateways serve the ports of a client's sandbox.
 * @throws RametError `InvalidArgument`, naming the field
 */
export function trafficAnnotations({
  allowPublicTraffic,
  maskRequestHost,
  httpsPorts,
}: Pick<Network, "allowPublicTraffic" | "maskRequestHost" | "httpsPorts">): Record<string, string> {
  const host = maskRequestHost ?? "";
  if (host !== "" && requestHost(host, guestClientPort) === undefined) {
    throw new RametError("InvalidArgument", "network.maskRequestHost is not a host name, optionally with a port", {
      hint: "Write it as host.example.com or host.example.com:${PORT}",
    });
  }
  const ports = [...new Set(httpsPorts ?? [])];
  if (ports.includes(guestClientPort))
    throw new RametError(
      "InvalidArgument",
      `network.httpsPorts contains ${guestClientPort}, which is not the sandbox's`,
    );
  return {
    ...(allowPublicTraffic !== false && { [annotations.publicPorts]: "*" }),
    ...(host !== "" && { [annotations.requestHost]: host }),
    ...(ports.length > 0 && { [annotations.httpsPorts]: ports.join(",") }),
  };
}
