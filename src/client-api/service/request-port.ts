import type { IncomingMessage } from "node:http";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { trafficAccessToken } from "../../cell/client/cell-token.ts";
import { callGuest, type GuestCall } from "../../cell/client/guest-http.ts";
import { gatewayDial, type GuestAccessOptions } from "./guest-access.ts";

/**
 * Sends a request to a port of a sandbox, through a gateway.
 * @throws RametError `GuestUnreachable` if there is no answer; `Canceled`
 */
export type RequestPort = (sandbox: Sandbox, port: number, call: GuestCall) => Promise<IncomingMessage>;

/** The gateway gets the token of ports that are not public. */
export function portRequester({ guestSecret, ...gateway }: GuestAccessOptions): RequestPort {
  return async ({ metadata: { uid } }, port, call) => {
    const headers = {
      host: `localhost:${port}`,
      ...call.headers,
      "e2b-sandbox-id": uid,
      "e2b-sandbox-port": String(port),
      "e2b-traffic-access-token": trafficAccessToken(await guestSecret(), uid),
      connection: "close",
    };
    return callGuest(await gatewayDial(gateway), { ...call, headers }, gateway.client.clock);
  };
}
