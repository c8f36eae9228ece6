import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import type { AzureLocation } from "../../../api/store/store-address.ts";
import { azureBucket } from "./azure-bucket.ts";
import { isPublicationUrl } from "../layout.ts";

/** Signing with an account's key, without a server. test/contract/store/azure.test.ts uses an emulator. */
const location: AzureLocation = { driver: "azure", account: "agents", container: "checkpoints", prefix: "ramet" };
const key = "team-a/c1/manifest.json";

beforeEach(() => {
  // Removes the credentials of the user who runs the tests.
  for (const name of Object.keys(process.env)) if (name.startsWith("AZURE_")) vi.stubEnv(name, undefined);
});
afterEach(() => vi.unstubAllEnvs());

it("signs a PUT only for the creation of a blob, for the requested time, and only for https", async () => {
  vi.stubEnv("AZURE_STORAGE_KEY", Buffer.from("key").toString("base64"));
  const before = Date.now();
  const { url, headers } = await azureBucket(location).signPutIfAbsent(key, 90_000);
  expect(headers).toEqual({ "if-none-match": "*", "x-ms-blob-type": "BlockBlob", "x-ms-version": "2022-11-02" });
  expect(url.startsWith(`https://agents.blob.core.windows.net/checkpoints/ramet/${key}?`)).toBe(true);
  expect(isPublicationUrl(url, { namespace: "team-a", checkpointId: "c1" })).toBe(true);
  const signed = new URL(url).searchParams;
  expect([signed.get("sp"), signed.get("sr"), signed.get("spr")]).toEqual(["c", "b", "https"]);
  const end = Date.parse(signed.get("se") ?? "");
  expect(end).toBeGreaterThanOrEqual(before + 90_000);
  expect(end).toBeLessThanOrEqual(Date.now() + 91_000);
});

it("signs a GET only for reading, at the configured endpoint", async () => {
  vi.stubEnv("AZURE_STORAGE_KEY", Buffer.from("key").toString("base64"));
  const endpoint = "https://agents.blob.core.usgovcloudapi.net/";
  const { url } = await azureBucket({ ...location, endpoint }).signGet(key, 90_000);
  expect(url.startsWith(`${endpoint}checkpoints/ramet/${key}?`)).toBe(true);
  expect(new URL(url).searchParams.get("sp")).toBe("r");
});

it.each([
  // The only source of credentials that needs no network.
  ["the environment has no identity", { AZURE_TOKEN_CREDENTIALS: "WorkloadIdentityCredential" }],
  ["a service account token has no client id", { AZURE_FEDERATED_TOKEN_FILE: "/nowhere" }],
])("reports missing credentials and what to do if %s", async (_, environment) => {
  for (const [name, value] of Object.entries(environment)) vi.stubEnv(name, value);
  await expect(azureBucket(location).signGet(key, 60_000)).rejects.toMatchObject({
    code: "StoreUnavailable",
    message: expect.stringContaining("no credentials found") as string,
    hint: expect.stringContaining("AKS workload identity") as string,
  });
});

it("keeps no connection of a response that is not the store's", async () => {
  vi.stubEnv("AZURE_STORAGE_KEY", Buffer.from("key").toString("base64"));
  // Such as a proxy's, which answers 200 to everything. It does not close idle connections itself.
  const server = createServer((_, response) => response.end("<html>not here</html>"));
  server.keepAliveTimeout = 0;
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}/agents`;
  const bucket = azureBucket({ ...location, endpoint });
  for (let times = 0; times < 10; times++) {
    await expect(bucket.read(key)).rejects.toMatchObject({ code: "StoreUnavailable" });
  }
  await expect.poll(() => connectionsOf(server)).toBeLessThanOrEqual(1);
  server.closeAllConnections();
  server.close();
});

function connectionsOf(server: Server): Promise<number> {
  return new Promise((resolve, reject) => {
    server.getConnections((error, count) => {
      if (error) reject(error);
      else resolve(count);
    });
  });
}
