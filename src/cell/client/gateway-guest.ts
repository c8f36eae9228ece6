import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import { connect as connectTcp, isIP, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import * as z from "zod";
import { guestClientPort, reportsPort } from "../../api/wire/cell-api.ts";
import { jsonValue } from "../../base/canonical-json.ts";
import { type Clock, delay } from "../../base/clock.ts";
import { defined } from "../../base/defined.ts";
import { errorCodes, type ErrorCode } from "../../base/error-codes.ts";
import { RametError } from "../../base/errors.ts";
import { within } from "../../base/within.ts";
import { containerUser, GuestClient } from "./guest-client.ts";
import { callGuest, guestLimits, textOf } from "./guest-http.ts";

export interface GatewayCredentials {
  url: URL;
  /** PEM. @default the system's certificate authorities */
  ca?: string;
  /** Returns a token for gateways that is valid for some time. @default the sandbox's own access token is sent */
  token?: () => Promise<string>;
}

export interface GatewayOptions {
  gateway: GatewayCredentials;
  /** The sandbox's own access token, for clients without a token for gateways. */
  accessToken?: string | undefined;
  /** `<namespace>--<name>` or the UID. */
  sandboxId: string;
  /** Whether the API server reports the sandbox as ready, so that the gateway will find it in a moment. */
  isKnownReady: boolean;
  clock: Clock;
  signal?: AbortSignal | undefined;
}

export interface GatewayGuestOptions extends GatewayOptions {
  user?: string | undefined;
}

/**
 * Returns a client of a sandbox's guest through a gateway, which sends the guest's access token.
 * @throws RametError the error of the gateway, such as `Forbidden` or `SandboxNotReady`; `Unavailable`
 */
export async function gatewayGuest(options: GatewayGuestOptions): Promise<GuestClient> {
  const { user } = options;
  const transport = transportTo(guestClientPort, options);
  // The guest's health needs no token of the guest.
  (await untilAnswered(transport, "/health", options)).resume();
  return new GuestClient({ ...transport, user: user ?? containerUser });
}

/** The calls of one port of a sandbox through a gateway. */
export function gatewayPort(options: GatewayOptions, port: number): Transport {
  return transportTo(port, options);
}

/**
 * Opens the log of a sandbox's entrypoint through a gateway.
 * @param query the options of `kubectl logs`
 * @throws RametError the error of the gateway, such as `Forbidden` or `SandboxNotReady`; `Unavailable`
 */
export function gatewayLog(options: GatewayOptions, query: URLSearchParams): Promise<IncomingMessage> {
  return untilAnswered(transportTo(reportsPort, options), `/logs?${query.toString()}`, options);
}

export type Transport = Required<Pick<ConstructorParameters<typeof GuestClient>[0], "dial" | "callHeaders">>;

function transportTo(port: number, options: GatewayOptions): Transport {
  const { gateway, sandboxId, accessToken } = options;
  return {
    dial: (signal) => dialGateway(gateway, { ...options, signal: either(signal, options.signal) }),
    callHeaders: async () => ({
      host: gateway.url.host,
      "e2b-sandbox-id": sandboxId,
      "e2b-sandbox-port": String(port),
      ...(gateway.token && { "ramet-access-token": await gateway.token() }),
      ...defined({ "x-access-token": accessToken }),
    }),
  };
}

/** A call ends with its own signal or with that of the client. */
function either(...signals: (AbortSignal | undefined)[]): AbortSignal {
  return AbortSignal.any(signals.filter((signal) => signal !== undefined));
}

/** A gateway follows the API server, so it can know a sandbox a moment after the user does. */
async function untilAnswered(transport: Transport, path: string, options: GatewayOptions): Promise<IncomingMessage> {
  const { clock, signal, isKnownReady } = options;
  const until = clock.monotonicMilliseconds() + (isKnownReady ? waitMilliseconds : 0);
  for (;;) {
    const response = await get(transport, path, options);
    if (response.statusCode === 200 || response.statusCode === 204) return response;
    const refusal = await refusalIn(response, options);
    if (!notYet.has(refusal.code) || clock.monotonicMilliseconds() >= until) throw refusal;
    await delay(clock, pauseMilliseconds, signal);
  }
}

const waitMilliseconds = 5_000;
const pauseMilliseconds = 50;
const notYet: ReadonlySet<ErrorCode> = new Set(["NotFound", "SandboxNotReady", "SandboxUnreachable"]);

async function get(
  { dial, callHeaders }: Transport,
  path: string,
  { clock, signal }: GatewayOptions,
): Promise<IncomingMessage> {
  const headers = await callHeaders();
  return callGuest(dial, { method: "GET", path, headers, signal, responseMilliseconds: 30_000 }, clock);
}

async function refusalIn(response: IncomingMessage, { gateway, clock }: GatewayOptions): Promise<RametError> {
  const { statusCode = 0 } = response;
  const text = await textOf(response, guestLimits.error, clock);
  const { success, data } = Refusal.safeParse(jsonValue(text));
  if (!success) {
    const what = `The gateway ${gateway.url.origin} does not answer as a gateway of Ramet: status ${statusCode}`;
    return new RametError("Unavailable", what, { hint: "Check the address, and the load balancer in front of it" });
  }
  const { reason, message, hint, retryable } = data;
  return new RametError(reason, message, defined({ retryable, hint }));
}

/** An error of the gateway itself. */
const Refusal = z.object({
  reason: z.enum(Object.keys(errorCodes) as [ErrorCode, ...ErrorCode[]]),
  message: z.string(),
  hint: z.string().optional(),
  retryable: z.boolean().default(false),
});

async function dialGateway(
  { url, ca }: GatewayCredentials,
  { clock, signal }: Pick<GatewayOptions, "clock" | "signal">,
): Promise<Socket> {
  const deadline = { clock, milliseconds: connectMilliseconds, what: "Connecting to the gateway", signal };
  const host = url.hostname.replace(/^\[(.*)\]$/, "$1");
  const isTls = url.protocol === "https:";
  const port = url.port === "" ? (isTls ? 443 : 80) : Number(url.port);
  const socket = isTls
    ? connectTls({ host, port, ...(isIP(host) === 0 && { servername: host }), ...defined({ ca }) })
    : connectTcp({ host, port });
  try {
    await within(deadline, (limit) => once(socket, isTls ? "secureConnect" : "connect", { signal: limit }));
    return socket;
  } catch (error) {
    socket.on("error", () => undefined).destroy();
    if (signal?.aborted === true) throw error;
    throw new RametError("Unavailable", `Cannot connect to the gateway ${url.origin}: ${whyOf(error)}`, {
      retryable: true,
      hint: "Check the address, which --gateway and RAMET_GATEWAY set, and that the gateway runs",
      cause: error,
    });
  }
}

/** A name with several addresses fails with one error for each. */
function whyOf(error: unknown): string {
  const [first = error] = error instanceof AggregateError ? (error.errors as unknown[]) : [];
  return RametError.from(first).message;
}

const connectMilliseconds = 10_000;
