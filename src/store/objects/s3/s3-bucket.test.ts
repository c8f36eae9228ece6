import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import type { S3Location } from "../../../api/store/store-address.ts";
import { isPublicationUrl } from "../layout.ts";
import { s3Bucket } from "./s3-bucket.ts";

/** Signing and credentials, without a store. test/contract/store/s3.test.ts uses a real server. */
const location: S3Location = { driver: "s3", bucket: "checkpoints", prefix: "ramet", region: "eu-central-1" };
const key = "team-a/c1/manifest.json";
const minutes = 60_000;

let directory: string;
let server: Server;
let asked: string[];
let answer: () => string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "ramet-s3-"));
  // Removes the credentials of the user who runs the tests.
  for (const name of Object.keys(process.env)) if (name.startsWith("AWS_")) vi.stubEnv(name, undefined);
  vi.stubEnv("AWS_CONFIG_FILE", join(directory, "none"));
  vi.stubEnv("AWS_SHARED_CREDENTIALS_FILE", join(directory, "none"));
  asked = [];
  server = createServer((request, response) => {
    asked.push(request.headers.authorization ?? request.url ?? "");
    request.resume();
    response.end(answer());
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
});
afterEach(async () => {
  vi.unstubAllEnvs();
  server.closeAllConnections();
  server.close();
  await rm(directory, { recursive: true });
});

const serverUrl = (): string => `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

async function signedPut(ttlMilliseconds: number): Promise<URLSearchParams> {
  const { url, headers } = await s3Bucket(location).signPutIfAbsent(key, ttlMilliseconds);
  expect(headers).toEqual({ "if-none-match": "*" });
  expect(url.startsWith(`https://checkpoints.s3.eu-central-1.amazonaws.com/ramet/${key}?`)).toBe(true);
  expect(isPublicationUrl(url, { namespace: "team-a", checkpointId: "c1" })).toBe(true);
  return new URL(url).searchParams;
}

it("signs a PUT with the condition that the object is missing, for the requested time, and without a checksum", async () => {
  vi.stubEnv("AWS_ACCESS_KEY_ID", "key");
  vi.stubEnv("AWS_SECRET_ACCESS_KEY", "secret");
  vi.stubEnv("AWS_SESSION_TOKEN", "session");
  const signed = await signedPut(90_000);
  expect(signed.get("X-Amz-SignedHeaders")).toBe("host;if-none-match");
  expect(signed.get("X-Amz-Expires")).toBe("90");
  expect(signed.get("X-Amz-Security-Token")).toBe("session");
  expect([...signed.keys()].filter((name) => /checksum|sdk/i.test(name))).toEqual([]);
});

it("finds credentials of EKS Pod Identity and refreshes them if they expire before the grant", async () => {
  vi.stubEnv("AWS_CONTAINER_CREDENTIALS_FULL_URI", `${serverUrl()}/v1/credentials`);
  vi.stubEnv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "pod-token");
  let lives = 8 * minutes;
  answer = () => {
    const Expiration = new Date(Date.now() + lives).toISOString();
    const AccessKeyId = `key${asked.length}`;
    lives = 360 * minutes;
    return JSON.stringify({ AccessKeyId, SecretAccessKey: "secret", Token: "session", Expiration });
  };
  const signed = await signedPut(10 * minutes);
  expect(signed.get("X-Amz-Credential")).toMatch(/^key2\//);
  expect(asked).toEqual(["pod-token", "pod-token"]);
});

it("assumes the role of the service account (IRSA)", async () => {
  const token = join(directory, "token");
  await writeFile(token, "a-service-account-token");
  vi.stubEnv("AWS_WEB_IDENTITY_TOKEN_FILE", token);
  vi.stubEnv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/ramet");
  vi.stubEnv("AWS_ENDPOINT_URL_STS", serverUrl());
  const expiration = new Date(Date.now() + 60 * minutes).toISOString();
  answer = () => `<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
    <AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>rolekey</AccessKeyId><SecretAccessKey>secret</SecretAccessKey>
    <SessionToken>session</SessionToken><Expiration>${expiration}</Expiration></Credentials></AssumeRoleWithWebIdentityResult>
    </AssumeRoleWithWebIdentityResponse>`;
  expect((await signedPut(10 * minutes)).get("X-Amz-Credential")).toMatch(/^rolekey\//);
});

it("reports missing credentials and what to do", async () => {
  vi.stubEnv("AWS_EC2_METADATA_DISABLED", "true");
  await expect(s3Bucket(location).signGet(key, minutes)).rejects.toMatchObject({
    code: "StoreUnavailable",
    message: expect.stringContaining("no credentials found") as string,
    hint: expect.stringContaining("EKS Pod Identity") as string,
  });
});
