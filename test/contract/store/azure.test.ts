import { getCACertificates, setDefaultCACertificates } from "node:tls";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { issueCertificate } from "../../../src/local/control-plane/certificate.ts";
import { azureBucket } from "../../../src/store/objects/azure/azure-bucket.ts";
import { readWhole } from "../../../src/store/objects/bucket.ts";
import { fileKey, newAttempt } from "../../../src/store/objects/layout.ts";
import { objectStore } from "../../../src/store/objects/store.ts";
import { startAzureServer, type AzureServer } from "../../setup/azure-server.ts";
import { startEntraStandIn, type EntraStandIn } from "../../setup/entra-stand-in.ts";
import type { StoreUnderTest } from "./harness.ts";
import { objectsUnderTest } from "./objects-under-test.ts";
import { storeContract } from "./store-contract.ts";

let server: AzureServer;
const makeStore = async (): Promise<StoreUnderTest> =>
  objectsUnderTest(azureBucket({ ...(await server.makePlace()), prefix: "ramet/store" }));

describe("with the account's key", () => {
  beforeAll(async () => {
    server = await startAzureServer();
    process.env["AZURE_STORAGE_KEY"] = server.environment.AZURE_STORAGE_KEY;
  });
  afterAll(async () => {
    delete process.env["AZURE_STORAGE_KEY"];
    await server.stop();
  });

  storeContract("Azure Blob", makeStore);

  test("a signature to write lets nobody write over what is there, whatever else the request says", async () => {
    const bucket = azureBucket(await server.makePlace());
    const { url, headers } = await bucket.signPutIfAbsent("a", 60_000);
    expect(await bucket.putIfAbsent("a", Buffer.from("first"))).toBe(true);
    for (const condition of ["*", '"another-etag"']) {
      const asked = { ...headers, "if-none-match": condition };
      expect((await fetch(url, { method: "PUT", headers: asked, body: "second" })).status).toBe(403);
    }
    expect((await readWhole(bucket, "a"))?.toString()).toBe("first");
  });

  test("a container with more blobs than one answer has is listed to the end", async () => {
    const bucket = azureBucket(await server.makePlace());
    const ids = Array.from({ length: 5_010 }, (_, index) => `c${index}`);
    for (let from = 0; from < ids.length; from += 50) {
      await Promise.all(
        ids.slice(from, from + 50).map((checkpointId) => {
          const key = fileKey({ namespace: "team-a", checkpointId }, newAttempt(Date.now()), 0);
          return bucket.putIfAbsent(key, Buffer.from("x"));
        }),
      );
    }
    expect(await objectStore({ bucket }).usage("team-a")).toMatchObject({ checkpoints: 0, stagingBytes: 5_010 });
  });
});

describe("with a workload identity", () => {
  let entra: EntraStandIn;
  const trusted = getCACertificates("default");
  beforeAll(async () => {
    const named = { commonName: "localhost", hosts: ["127.0.0.1"] };
    const tls = issueCertificate({ ...named, use: "server", now: new Date(), validDays: 1 });
    setDefaultCACertificates([...trusted, tls.certificate]);
    server = await startAzureServer(tls);
    entra = await startEntraStandIn(tls);
    Object.assign(process.env, entra.environment);
  });
  afterAll(async () => {
    for (const name of Object.keys(entra.environment)) Reflect.deleteProperty(process.env, name);
    setDefaultCACertificates(trusted);
    await entra.stop();
    await server.stop();
  });

  storeContract("Azure Blob", makeStore);

  test("one token and one key that Azure lends are enough for many grants, until one would outlive the key", async () => {
    const bucket = azureBucket(await server.makePlace());
    const before = entra.given;
    const keyEnd = async (ttlMilliseconds: number) => {
      const { url } = await bucket.signGet("a", ttlMilliseconds);
      return Date.parse(new URL(url).searchParams.get("ske") ?? "");
    };
    const day = 86_400_000;
    const ends = await Promise.all([keyEnd(60_000), keyEnd(60_000), keyEnd(day / 2)]);
    expect(new Set(ends).size).toBe(1);
    expect(await keyEnd(2 * day)).toBeGreaterThanOrEqual(Date.now() + 2 * day - 60_000);
    expect(entra.given - before).toBe(1);
  });

  test("one that Entra ID does not know is said to be what is wrong", async () => {
    process.env["AZURE_CLIENT_ID"] = entra.environment.AZURE_TENANT_ID;
    try {
      const strange = objectStore({ bucket: azureBucket(await server.makePlace()) });
      const refused = {
        code: "StoreUnavailable",
        message: expect.stringContaining("AADSTS700213") as string,
        hint: expect.stringContaining("workload identity") as string,
      };
      await expect(strange.has({ namespace: "team-a", checkpointId: "c1" })).rejects.toMatchObject(refused);
      expect((await strange.probe()).problem).toMatchObject(refused);
    } finally {
      process.env["AZURE_CLIENT_ID"] = entra.environment.AZURE_CLIENT_ID;
    }
  });
});
