import type { IncomingMessage } from "node:http";
import { connect as connectPlain } from "node:net";
import type { Duplex } from "node:stream";
import { connect as connectTls } from "node:tls";
import * as z from "zod";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { gatewayAddress, systemNamespace } from "../../api/names/system-names.ts";
import { defined } from "../../base/defined.ts";
import { RametError } from "../../base/errors.ts";
import { guestAccessToken, trafficAccessToken } from "../../cell/client/cell-token.ts";
import { GuestClient } from "../../cell/client/guest-client.ts";
import { callGuest, type GuestCall, type GuestDial } from "../../cell/client/guest-http.ts";
import type { KubeClient } from "../../kube/kube-client.ts";
import { ObjectMeta } from "../../kube/object.ts";
import { coreResources } from "../../kube/resource-ref.ts";

/** Returns a client of a sandbox's guest. @param user who runs commands and owns files */
export type GuestOf = (sandbox: Sandbox, user: string) => Promise<GuestClient>;

export interface GuestAccessOptions {
  client: KubeClient;
  /** Reads the secret of the guests' tokens. */
  guestSecret: () => Promise<Buffer>;
  /** The origin of a gateway, such as `http://ramet-gateway.ramet-system`. @default the published address */
  gateway?: string | undefined;
}

/** Guests are reached through a gateway, because only gateways may open ports of sandboxes; the guest checks its own token. */
export function guestAccess({ guestSecret, ...gateway }: GuestAccessOptions): GuestOf {
  return async ({ metadata: { uid } }, user) => {
    const headers = { "e2b-sandbox-id": uid, "e2b-sandbox-port": String(guestPort) };
    return new GuestClient({
      dial: await gatewayDial(gateway),
      accessToken: guestAccessToken(await guestSecret(), uid),
      callHeaders: () => Promise.resolve(headers),
      user,
    });
  };
}

const guestPort = 49983;

/** Returns what opens connections to the gateway. */
export async function gatewayDial({
  client,
  gateway,
}: Pick<GuestAccessOptions, "client" | "gateway">): Promise<GuestDial> {
  const { url, ca } = gateway === undefined ? await published(client) : { url: gateway };
  return () => dial(new URL(url), ca);
}

async function published(client: KubeClient): Promise<{ url: string; ca?: string | undefined }> {
  const at = { namespace: systemNamespace, name: gatewayAddress.configMap };
  const found = await client.resource(coreResources.configMaps, (value) => Address.parse(value)).find(at);
  if (found !== undefined) return { url: found.data[gatewayAddress.url], ca: found.data[gatewayAddress.ca] };
  throw new RametError("Unavailable", `The ConfigMap ${at.name} with the address of the gateway does not exist`, {
    hint: "Start the client API with --gateway",
  });
}

const Address = z.looseObject({
  metadata: ObjectMeta,
  data: z.looseObject({ [gatewayAddress.url]: z.url(), [gatewayAddress.ca]: z.string().optional() }),
});

async function dial({ protocol, hostname, port }: URL, ca: string | undefined): Promise<Duplex> {
  const host = hostname.replace(/^\[|\]$/g, "");
  const isTls = protocol === "https:";
  const to = { host, port: port === "" ? (isTls ? 443 : 80) : Number(port), timeout: connectMilliseconds };
  const socket = isTls ? connectTls({ ...to, servername: host, ...defined({ ca }) }) : connectPlain(to);
  const opened = Promise.withResolvers<undefined>();
  socket.once(isTls ? "secureConnect" : "connect", () => {
    socket.setTimeout(0);
    opened.resolve(undefined);
  });
  const fail = (cause?: Error): void => {
    socket.destroy();
    const why = cause?.message ?? "the connection timed out";
    opened.reject(new RametError("Unavailable", `The gateway does not respond: ${why}`, { retryable: true, cause }));
  };
  socket.once("error", fail);
  socket.once("timeout", () => {
    fail();
  });
  await opened.promise;
  return socket;
}

const connectMilliseconds = 10_000;

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
