import type { IncomingMessage } from "node:http";
import * as z from "zod";
import type { KeyValue } from "../../api/keys/api-key-rules.ts";
import { keyValueId } from "../../api/keys/api-key-text.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { gatewayAddress, systemNamespace } from "../../api/names/system-names.ts";
import { guestClientPort } from "../../api/wire/cell-api.ts";
import { defined } from "../../base/defined.ts";
import { RametError } from "../../base/errors.ts";
import { within } from "../../base/within.ts";
import {
  clientAccessToken,
  type ClientTokenUse,
  serverAccessToken,
  trafficAccessToken,
} from "../../cell/client/cell-token.ts";
import { type GatewayCredentials, gatewayPort, type Transport } from "../../cell/client/gateway-guest.ts";
import { GuestClient } from "../../cell/client/guest-client.ts";
import { callGuest, type GuestCall } from "../../cell/client/guest-http.ts";
import type { KubeClient } from "../../kube/kube-client.ts";
import { ObjectMeta } from "../../kube/object.ts";
import { coreResources } from "../../kube/resource-ref.ts";

/** Reaches sandboxes through a gateway, because only gateways may open ports of sandboxes. */
export class Guests {
  readonly #client: KubeClient;
  readonly #gateway: string | undefined;
  /** Reads the secret of the guests' tokens. */
  readonly secret: () => Promise<Buffer>;

  /** @param gateway the origin of a gateway, such as `http://ramet-gateway.ramet-system`. Default: the published address */
  constructor(client: KubeClient, secret: () => Promise<Buffer>, gateway?: string) {
    this.#client = client;
    this.secret = secret;
    this.#gateway = gateway;
  }

  /** Returns a client of a sandbox's guest, with a token that the gateway checks. @param user who runs commands and owns files */
  async guest({ metadata: { uid } }: Sandbox, user: string): Promise<GuestClient> {
    const accessToken = serverAccessToken(await this.secret(), uid);
    return new GuestClient({ ...(await this.#transport(uid, guestClientPort)), accessToken, user });
  }

  /** The tokens of a client, which its key ends: one opens the API of the guest, the other one ports that are not public. */
  async clientTokens({ metadata }: Sandbox, value: KeyValue): Promise<Record<ClientTokenUse, string>> {
    const secret = await this.secret();
    const at = { sandboxUid: metadata.uid, valueId: keyValueId(value) };
    const tokenFor = (use: ClientTokenUse) => clientAccessToken(secret, { ...at, use });
    return { enter: tokenFor("enter"), traffic: tokenFor("traffic") };
  }

  /**
   * Sends a request to a port of a sandbox. The gateway gets the token of ports that are not public.
   * @throws RametError `GuestUnreachable` if there is no answer; `Canceled`
   */
  async request({ metadata: { uid } }: Sandbox, port: number, call: GuestCall): Promise<IncomingMessage> {
    const token = trafficAccessToken(await this.secret(), uid);
    const headers = { host: `localhost:${port}`, ...call.headers, "e2b-traffic-access-token": token };
    return this.#call(uid, port, { ...call, headers });
  }

  /**
   * Returns the first bytes of what a sandbox answers to a GET request as a client that may enter it.
   * @throws RametError `Unavailable` if it does not answer with status 200; `Canceled`
   */
  async read(
    { metadata: { name, uid } }: Sandbox,
    { port, path, limitBytes, signal }: SandboxRequest,
  ): Promise<string> {
    // A sandbox that sends slowly must not occupy the server.
    const deadline = { clock: this.#client.clock, milliseconds: answerMilliseconds, what: "the answer", signal };
    try {
      const headers = { "x-access-token": serverAccessToken(await this.secret(), uid) };
      return await within(deadline, async (either) => {
        const response = await this.#call(uid, port, { method: "GET", path, headers, signal: either });
        const text = await firstBytes(response, limitBytes);
        if (response.statusCode === 200) return text;
        throw new RametError("Unavailable", `it answers with status ${response.statusCode ?? 0}`);
      });
    } catch (cause) {
      const message = `The sandbox ${name} does not answer: ${RametError.from(cause).message}`;
      throw new RametError(signal.aborted ? "Canceled" : "Unavailable", message, { retryable: true, cause });
    }
  }

  async #call(uid: string, port: number, call: GuestCall): Promise<IncomingMessage> {
    const { dial, callHeaders } = await this.#transport(uid, port, call.signal);
    const headers = { ...(await callHeaders()), ...call.headers, connection: "close" };
    return callGuest(dial, { ...call, headers }, this.#client.clock);
  }

  async #transport(sandboxId: string, port: number, signal?: AbortSignal): Promise<Transport> {
    const gateway = this.#gateway === undefined ? await this.#published() : { url: new URL(this.#gateway) };
    return gatewayPort({ gateway, sandboxId, isKnownReady: true, clock: this.#client.clock, signal }, port);
  }

  async #published(): Promise<GatewayCredentials> {
    const at = { namespace: systemNamespace, name: gatewayAddress.configMap };
    const found = await this.#client.resource(coreResources.configMaps, (value) => Address.parse(value)).find(at);
    if (found !== undefined) {
      const { [gatewayAddress.url]: url, [gatewayAddress.ca]: ca } = found.data;
      return { url: new URL(url), ...defined({ ca }) };
    }
    throw new RametError("Unavailable", `The ConfigMap ${at.name} with the address of the gateway does not exist`, {
      hint: "Start the client API with --gateway",
    });
  }
}

export interface SandboxRequest {
  port: number;
  /** With the query. */
  path: string;
  /** More is not read. */
  limitBytes: number;
  signal: AbortSignal;
}

const answerMilliseconds = 15_000;

const Address = z.looseObject({
  metadata: ObjectMeta,
  data: z.looseObject({ [gatewayAddress.url]: z.url(), [gatewayAddress.ca]: z.string().optional() }),
});

/** Leaving the loop closes the connection if there is more. */
async function firstBytes(body: AsyncIterable<unknown>, limitBytes: number): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of body as AsyncIterable<Buffer>) {
    chunks.push(chunk.subarray(0, limitBytes - size));
    size += chunk.length;
    if (size >= limitBytes) break;
  }
  return Buffer.concat(chunks).toString("utf8");
}
