import { generateKeyPairSync } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import type { GcsLocation } from "../../../api/store/store-address.ts";
import { gcsBucket } from "./gcs-bucket.ts";
import { grantToWrite } from "../store.ts";
import { isPublicationUrl } from "../layout.ts";

/**
 * Signing and credentials. One server is the stand-in for GKE's metadata server, the token server and IAM. It proves which
 * requests they receive, but not that Google's servers respond like that. test/contract/store/gcs.test.ts has a stand-in for
 * Cloud Storage.
 */
const location: GcsLocation = { driver: "gcs", bucket: "checkpoints", prefix: "ramet" };
const ref = { namespace: "team-a", checkpointId: "c1" };
const key = "team-a/c1/manifest.json";
const email = "ramet@project.iam.gserviceaccount.com";
const minutes = 60_000;

let directory: string;
let server: Server;
/** Method and path of each request, with its token and its body. */
let asked: { what: string; token: string | undefined; body: string }[];
let answers: Record<string, { status?: number; json?: object; text?: string }>;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "ramet-gcs-"));
  // Removes the credentials of the user who runs the tests and of the machine.
  for (const name of Object.keys(process.env))
    if (/^(GOOGLE|GCE|GCLOUD|CLOUDSDK)_/.test(name)) vi.stubEnv(name, undefined);
  vi.stubEnv("HOME", directory);
  vi.stubEnv("METADATA_SERVER_DETECTION", "none");
  // Otherwise the library calls gcloud if it is installed.
  vi.stubEnv("GOOGLE_CLOUD_PROJECT", "project");
  asked = [];
  answers = {};
  server = createServer((request, response) => {
    bodyOf(request).then(
      (body) => {
        const what = `${request.method} ${request.url}`;
        asked.push({ what, token: request.headers.authorization, body });
        const { status = 200, json, text = "" } = answers[what] ?? { status: 404 };
        const type = json === undefined ? "text/plain" : "application/json";
        response.writeHead(status, { "metadata-flavor": "Google", "content-type": type });
        response.end(json === undefined ? text : JSON.stringify(json));
      },
      () => response.destroy(),
    );
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
const bucket = () => gcsBucket(location, { iamCredentials: serverUrl() });
const signBlob = `POST /v1/projects/-/serviceAccounts/${email}:signBlob`;
const signedByIam = { json: { signedBlob: Buffer.from("by IAM").toString("base64") } };

async function credentialsFile(content: object): Promise<void> {
  const path = join(directory, "credentials.json");
  await writeFile(path, JSON.stringify(content));
  vi.stubEnv("GOOGLE_APPLICATION_CREDENTIALS", path);
}

async function withKey(): Promise<void> {
  const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  const pem = privateKey.export({ type: "pkcs8", format: "pem" });
  await credentialsFile({ type: "service_account", client_email: email, private_key: pem });
}

/** Simulates a Pod on GKE. The metadata server returns `name` as the service account. */
function onGke(name: string): void {
  vi.stubEnv("METADATA_SERVER_DETECTION", "assume-present");
  vi.stubEnv("GCE_METADATA_HOST", serverUrl().slice("http://".length));
  const account = "GET /computeMetadata/v1/instance/service-accounts/default";
  const scopes = encodeURIComponent("https://www.googleapis.com/auth/cloud-platform");
  answers[`${account}/email`] = { text: name };
  const token = { json: { access_token: "of-the-pod", expires_in: 3600, token_type: "Bearer" } };
  answers[`${account}/token?scopes=${scopes}`] = token;
}

it("signs a PUT with the condition that the object is missing, using the key of the credentials", async () => {
  await withKey();
  const { url, headers } = await bucket().signPutIfAbsent(key, 90_000);
  expect(headers).toEqual({ "x-goog-if-generation-match": "0" });
  expect(url.startsWith(`https://storage.googleapis.com/checkpoints/ramet/${key}?`)).toBe(true);
  expect(isPublicationUrl(url, ref)).toBe(true);
  const signed = new URL(url).searchParams;
  expect(signed.get("X-Goog-SignedHeaders")).toBe("host;x-goog-if-generation-match");
  expect(signed.get("X-Goog-Expires")).toBe("90");
  expect(signed.get("X-Goog-Credential")).toMatch(/^ramet@project\.iam\.gserviceaccount\.com\/\d{8}\/auto\/storage\//);
  expect(signed.get("X-Goog-Signature")).toMatch(/^[0-9a-f]{512}$/);
  expect(asked).toEqual([]);
});

it("signs no request for longer than the keys of IAM last", async () => {
  const refused = { code: "InvalidArgument", message: expect.stringContaining("the maximum is 43200 s") as string };
  onGke(email);
  await expect(bucket().signGet(key, 720 * minutes + 1)).rejects.toMatchObject(refused);
});

it("finds the service account of a Pod on GKE once and signs by IAM", async () => {
  onGke(email);
  answers[signBlob] = signedByIam;
  const lifetime = { ttlMilliseconds: 10 * minutes, expiresAt: Date.now() + 10 * minutes };
  const grant = await grantToWrite(bucket(), { ...ref, ...lifetime });
  const requests = [grant.publication, grant.publish, ...grant.files];
  for (const { url } of requests) {
    expect(new URL(url).searchParams.get("X-Goog-Signature")).toBe(Buffer.from("by IAM").toString("hex"));
  }
  const signings = asked.filter(({ what }) => what === signBlob);
  expect(signings.map(({ token }) => token)).toEqual(requests.map(() => "Bearer of-the-pod"));
  for (const { body } of signings) {
    const { payload } = JSON.parse(body) as { payload: string };
    expect(Buffer.from(payload, "base64").toString()).toMatch(/^GOOG4-RSA-SHA256\n\d{8}T\d{6}Z\n.*\n[0-9a-f]{64}$/);
  }
  expect(asked.filter(({ what }) => what.endsWith("/email"))).toHaveLength(1);
});

it("reports that a Kubernetes service account without a Google one cannot sign", async () => {
  onGke("project.svc.id.goog");
  await expect(bucket().signGet(key, minutes)).rejects.toMatchObject({
    code: "StoreUnavailable",
    message: expect.stringContaining("project.svc.id.goog is not a Google service account") as string,
    hint: expect.stringContaining("--store-service-account") as string,
  });
});

const impersonation = `POST /v1/projects/-/serviceAccounts/${email}:generateAccessToken`;

/** Simulates a cluster outside Google Cloud whose service accounts impersonate the Google one by a federation. */
async function federated(): Promise<void> {
  const subject = join(directory, "token");
  await writeFile(subject, "of-the-cluster");
  await credentialsFile({
    type: "external_account",
    audience: "//iam.googleapis.com/pool",
    token_url: `${serverUrl()}/v1/token`,
    subject_token_type: "urn:ietf:params:oauth:token-type:jwt",
    credential_source: { file: subject },
    service_account_impersonation_url: `${serverUrl()}${impersonation.slice("POST ".length)}`,
  });
  answers["POST /v1/token"] = { json: { access_token: "federated", expires_in: 3600, token_type: "Bearer" } };
  const expireTime = new Date(Date.now() + 60 * minutes).toISOString();
  answers[impersonation] = { json: { accessToken: "of-the-account", expireTime } };
}

it("exchanges the token of a federation for that of a service account and signs by IAM", async () => {
  await federated();
  answers[signBlob] = signedByIam;
  await bucket().signGet(key, minutes);
  expect(asked.map(({ what, token }) => [what, token])).toEqual([
    ["POST /v1/token", undefined],
    [impersonation, "Bearer federated"],
    [signBlob, "Bearer of-the-account"],
  ]);
  expect(asked[0]?.body).toContain("subject_token=of-the-cluster");
});

it.each([
  [403, "IAM_PERMISSION_DENIED", false],
  [429, "RATE_LIMIT_EXCEEDED", true],
])("reports a refusal of IAM (%i) with a hint and whether it is transient", async (status, reason, retryable) => {
  onGke(email);
  const message = "Permission 'iam.serviceAccounts.signBlob' denied, or too many requests";
  answers[signBlob] = { status, json: { error: { code: status, message, details: [{ reason }] } } };
  await expect(bucket().signGet(key, minutes)).rejects.toMatchObject({
    code: "StoreUnavailable",
    retryable,
    message: `signing failed: IAM responded with ${status} ${reason}: ${message}`,
    hint: expect.stringContaining("roles/iam.serviceAccountTokenCreator") as string,
  });
});

it("reports missing credentials and what to do", async () => {
  await expect(bucket().signGet(key, minutes)).rejects.toMatchObject({
    code: "StoreUnavailable",
    message: expect.stringContaining("no credentials found") as string,
    hint: expect.stringContaining("GOOGLE_APPLICATION_CREDENTIALS") as string,
  });
});

it("reports that a federation is not allowed to impersonate the service account", async () => {
  await federated();
  const message = "Permission 'iam.serviceAccounts.getAccessToken' denied";
  answers[impersonation] = { status: 403, json: { error: { code: 403, message, status: "PERMISSION_DENIED" } } };
  const reason = `no credentials found: ${serverUrl().slice(7)} responded with 403 PERMISSION_DENIED: ${message}`;
  await expect(bucket().read(key)).rejects.toMatchObject({
    code: "StoreUnavailable",
    message: `reading gs://checkpoints/ramet/${key} failed: ${reason}`,
  });
});

const lacksRight = `${email} does not have storage.objects.get access to the object.`;
const jsonRefusal = (reason: string) =>
  JSON.stringify({ error: { code: 403, message: lacksRight, errors: [{ message: lacksRight, reason }] } });

it.each([
  ["by the XML API", `<Error><Code>AccessDenied</Code><Details>${lacksRight}</Details></Error>`, "AccessDenied"],
  ["by the JSON API", jsonRefusal("forbidden"), "forbidden"],
])("reports a missing permission %s", async (_, text, word) => {
  await withKey();
  const path = `GET /checkpoints/ramet/${key}`;
  answers[path] = { status: 403, text };
  const error = {
    code: "StoreUnavailable",
    message: `reading gs://checkpoints/ramet/${key} failed: the store responded with 403 ${word}: ${lacksRight}`,
  };
  const hint = expect.stringContaining("roles/storage.objectUser") as string;
  await expect(gcsBucket({ ...location, endpoint: serverUrl() }).read(key)).rejects.toMatchObject({ ...error, hint });
});

it("treats a rate limit as transient regardless of its status", async () => {
  await withKey();
  answers[`PUT /checkpoints/ramet/${key}`] = { status: 403, text: jsonRefusal("userRateLimitExceeded") };
  const put = gcsBucket({ ...location, endpoint: serverUrl() }).putIfAbsent(key, Buffer.from("x"));
  await expect(put).rejects.toMatchObject({ code: "StoreUnavailable", retryable: true });
});

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}
