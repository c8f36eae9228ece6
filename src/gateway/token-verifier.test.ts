import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { exportJWK, generateKeyPair, SignJWT, UnsecuredJWT, type CryptoKey, type JWK } from "jose";
import { afterEach, beforeEach, expect, it } from "vitest";
import { ManualClock } from "../../test/setup/manual-clock.ts";
import { RametError } from "../base/errors.ts";
import { explicitConnection } from "../kube/connection.ts";
import { KubeClient } from "../kube/kube-client.ts";
import { serviceAccountTokens, type TokenVerifier } from "./token-verifier.ts";

/** A stand-in for an API server: it publishes keys and counts how often they are read. */
const published: JWK[] = [];
let status = 200;
let reads = 0;
const server = createServer((_request, response) => {
  reads += 1;
  response.writeHead(status, { "content-type": "application/jwk-set+json" }).end(JSON.stringify({ keys: published }));
});
let clock: ManualClock;
let client: KubeClient;
let tokens: TokenVerifier;
let key: CryptoKey;

beforeEach(async () => {
  [status, reads, published.length] = [200, 0, 0];
  clock = new ManualClock();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  client = new KubeClient(explicitConnection({ server: `http://127.0.0.1:${port}` }), { clock });
  key = await publish("one");
  tokens = await open();
});
afterEach(async () => {
  await client.close();
  server.closeAllConnections();
  server.close();
  await once(server, "close");
});

const open = () => serviceAccountTokens(client, AbortSignal.timeout(10_000));

async function publish(kid: string): Promise<CryptoKey> {
  const { privateKey, publicKey } = await generateKeyPair("RS256");
  published.push({ ...(await exportJWK(publicKey)), kid, alg: "RS256", use: "sig" });
  return privateKey;
}

const seconds = (): number => Math.floor(clock.now().getTime() / 1000);
const claims = (more: object = {}) => ({ aud: ["ramet-gateway"], iss: "https://a", exp: seconds() + 600, ...more });
const signed = (payload: object, kid = "one", by = key): Promise<string> =>
  new SignJWT({ ...payload }).setProtectedHeader({ alg: "RS256", kid }).sign(by);
const verdict = (token: string, by = tokens): Promise<string> =>
  by.verify(token).then(
    () => "passes",
    (error: unknown) => RametError.from(error).code,
  );

it("accepts a token of the API server for gateways only, until it expires", async () => {
  const token = await signed(claims());
  expect(await verdict(token)).toBe("passes");
  clock.advance(601_000);
  expect(await verdict(token)).toBe("Unauthorized");
});

it("rejects every other token without a request", async () => {
  const { privateKey: foreign } = await generateKeyPair("RS256");
  const [head = "", , signature = ""] = (await signed(claims())).split(".");
  const bad = [
    "made-up",
    "a.b.c",
    "a".repeat(10_000),
    new UnsecuredJWT(claims()).encode(),
    await signed(claims(), "one", foreign),
    `${head}.${Buffer.from(JSON.stringify(claims({ sub: "other" }))).toString("base64url")}.${signature}`,
    await signed(claims({ aud: "https://kubernetes.default.svc" })),
    await signed(claims({ aud: [] })),
    await signed(claims({ iss: undefined })),
    await signed(claims({ exp: undefined })),
    await signed(claims({ exp: seconds() - 1 })),
    await signed(claims({ nbf: seconds() + 3_600 })),
    await signed(claims({ exp: "never" })),
  ];
  for (const token of bad)
    expect([token.slice(0, 40), await verdict(token)]).toEqual([token.slice(0, 40), "Unauthorized"]);
  expect(reads).toBe(1);
});

it("reads the keys again for an unknown key, once in five seconds", async () => {
  clock.advance(5_000);
  const rotated = await publish("two");
  const [forged, token] = [await signed(claims(), "made-up"), await signed(claims(), "two", rotated)];
  expect(await Promise.all([verdict(forged), verdict(forged)])).toEqual(["Unauthorized", "Unauthorized"]);
  for (let attempt = 0; attempt < 20; attempt += 1) expect(await verdict(forged)).toBe("Unauthorized");
  expect(reads).toBe(2);
  expect(await verdict(token)).toBe("passes");
});

it("keeps the known keys while the API server fails, and then has no verdict about unknown keys", async () => {
  clock.advance(5_000);
  status = 500;
  expect(await verdict(await signed(claims(), "unknown"))).toBe("Unavailable");
  expect(await verdict(await signed(claims()))).toBe("passes");
});

it("names the missing right or the flag when the keys cannot be read at the start", async () => {
  status = 403;
  await expect(open()).rejects.toMatchObject({
    code: "Forbidden",
    hint: expect.stringMatching(/system:service-account-issuer-discovery.*--accept-tokens-by-review-only/) as string,
  });
});
