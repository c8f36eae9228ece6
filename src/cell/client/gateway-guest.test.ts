import { once } from "node:events";
import type { IncomingHttpHeaders, RequestListener } from "node:http";
import { createServer, type Server } from "node:https";
import { type AddressInfo, createServer as createTcpServer, type Socket } from "node:net";
import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import { ManualClock } from "../../../test/setup/manual-clock.ts";
import { issueCertificate } from "../../local/control-plane/certificate.ts";
import { gatewayGuest, gatewayPort } from "./gateway-guest.ts";

/** A stand-in for a gateway behind TLS. It does not prove what a gateway does with a request. */
let server: Server;
let answer: RequestListener;
let seen: IncomingHttpHeaders[];
const [authority, other] = await Promise.all(
  ["one", "other"].map((commonName) =>
    issueCertificate({ commonName, use: "authority", now: new Date(), validDays: 1 }),
  ),
);

beforeAll(async () => {
  const { certificate, key } = await issueCertificate(
    { commonName: "gateway", use: "server", hosts: ["localhost"], now: new Date(), validDays: 1 },
    authority,
  );
  server = createServer({ cert: certificate, key }, (incoming, response) => {
    seen.push(incoming.headers);
    answer(incoming, response);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
});
beforeEach(() => (seen = []));
afterAll(() => server.close());

const clock = new ManualClock();
function open({ ca = authority?.certificate, isKnownReady = false } = {}) {
  const url = new URL(`https://localhost:${(server.address() as AddressInfo).port}`);
  const gateway = { url, token: () => Promise.resolve("mine"), ...(ca !== undefined && { ca }) };
  return gatewayGuest({ gateway, sandboxId: "t--a", isKnownReady, clock, signal: new AbortController().signal });
}

const refusal = (reason: string, message: string, hint?: string) =>
  JSON.stringify({ code: 502, reason, message, hint });

it("sends the token and the sandbox's name to the gateway, and no token of a guest", async () => {
  answer = ({ url }, response) => response.writeHead(url === "/health" ? 204 : 200).end("content");
  const guest = await open();
  let text = "";
  for await (const chunk of (await guest.readFile("/a")) as AsyncIterable<Buffer>) text += chunk.toString();
  expect(text).toBe("content");
  const sent = { "e2b-sandbox-id": "t--a", "e2b-sandbox-port": "49983", "ramet-access-token": "mine" };
  expect(seen).toEqual([expect.objectContaining(sent), expect.objectContaining(sent)]);
  expect(seen.some((headers) => "x-access-token" in headers)).toBe(false);
});

it("sends nothing to a server whose certificate is not of the authority", async () => {
  for (const ca of [other?.certificate, ""]) {
    await expect(open({ ca })).rejects.toMatchObject({
      code: "Unavailable",
      message: expect.stringMatching(/certificate/) as string,
    });
  }
  expect(seen).toEqual([]);
});

it("reports the gateway's own error, and a server that is no gateway", async () => {
  answer = (_, response) => response.writeHead(403).end(refusal("Forbidden", "no", "Grant it"));
  await expect(open()).rejects.toMatchObject({ code: "Forbidden", message: "no", hint: "Grant it" });
  answer = (_, response) => response.writeHead(404).end("<html>not here</html>");
  await expect(open()).rejects.toMatchObject({
    code: "Unavailable",
    message: expect.stringContaining("status 404") as string,
  });
});

it("waits for a gateway that does not know a ready sandbox yet, but not for long", async () => {
  const states = [refusal("NotFound", "none"), refusal("SandboxNotReady", "starting")];
  answer = (_, response) => {
    const state = states.shift();
    response.writeHead(state === undefined ? 204 : 502).end(state);
  };
  const opened = open({ isKnownReady: true });
  for (const requests of [1, 2]) {
    await expect.poll(() => [seen.length, clock.waits.includes(50)]).toEqual([requests, true]);
    clock.advance(50);
  }
  await opened;

  answer = (_, response) => response.writeHead(502).end(refusal("NotFound", "none"));
  await expect(open()).rejects.toMatchObject({ code: "NotFound" });
  const waiting = expect(open({ isKnownReady: true })).rejects.toMatchObject({ code: "NotFound" });
  await expect.poll(() => clock.waits.includes(50)).toBe(true);
  clock.advance(5_000);
  await waiting;
});

it("ends the connecting of a call with the signal of the call or with that of the client", async () => {
  const silent = createTcpServer().listen(0, "127.0.0.1");
  await once(silent, "listening");
  const url = new URL(`https://127.0.0.1:${(silent.address() as AddressInfo).port}`);
  for (const ending of ["call", "client"] as const) {
    const signals = { call: new AbortController(), client: new AbortController() };
    const options = { gateway: { url }, sandboxId: "t--a", isKnownReady: false, clock, signal: signals.client.signal };
    const connected = once(silent, "connection");
    const dialed = gatewayPort(options, 80).dial(signals.call.signal);
    const refused = expect(dialed).rejects.toMatchObject({ name: "AbortError" });
    const [socket] = (await connected) as [Socket];
    signals[ending].abort();
    await refused;
    socket.destroy();
  }
  silent.close();
});
