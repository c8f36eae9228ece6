import { getCACertificates, setDefaultCACertificates } from "node:tls";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { issueCertificate } from "../../../src/local/control-plane/certificate.ts";
import { azureBucket } from "../../../src/store/objects/azure/azure-bucket.ts";
import { readWhole } from "../../../src/store/objects/bucket.ts";
import { fileKey, newAttempt } from "../../../src/store/objects/layout.ts";
import { objectStore } from "../../../src/store/objects/store.ts";
import { startAzureServer, type AzureServer } from "../../setup/azure-server.ts";
import { startEntraStandIn, type EntraStandIn } from "../../setup/entra-stand-in.ts";
import type { StoreUnderTest } from "./harness.ts";
import { largeFiles } from "./large-files.ts";
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
  largeFiles("Azure Blob", async () => azureBucket(await server.makePlace()));

  it("does not let a signature for writing overwrite a blob, whatever condition the request has", async () => {
    const bucket = azureBucket(await server.makePlace());
    const { url, headers } = await bucket.signPutIfAbsent("a", 60_000);
    expect(await bucket.putIfAbsent("a", Buffer.from("first"))).toBe(true);
    for (const condition of ["*", '"another-etag"']) {
      const changed = { ...headers, "if-none-match": condition };
      expect((await fetch(url, { method: "PUT", headers: changed, body: "second" })).status).toBe(403);
    }
    expect((await readWhole(bucket, "a"))?.toString()).toBe("first");
  });

  it("lists all blobs of a container that has more than one page", async () => {
    const bucket = azureBucket(await server.makePlace());
    const ids = Array.from({ length: 250 }, (_, index) => `c${index}`);
    for (let from = 0; from < ids.length; from += 50) {
      await Promise.all(
        ids.slice(from, from + 50).map((checkpointId) => {
          const key = fileKey({ namespace: "team-a", checkpointId }, newAttempt(Date.now()), 0);
          return bucket.putIfAbsent(key, Buffer.from("x"));
        }),
      );
    }
    expect(await objectStore({ bucket }).usage("team-a")).toMatchObject({ checkpoints: 0, stagingBytes: 250 });
  });
});

describe("with a workload identity", () => {
  let entra: EntraStandIn;
  const trusted = getCACertificates("default");
  beforeAll(async () => {
    const named = { commonName: "localhost", hosts: ["127.0.0.1"] };
    const tls = await issueCertificate({ ...named, use: "server", now: new Date(), validDays: 1 });
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

  it("reuses one token and one delegation key for several grants, until a grant would outlive the key", async () => {
    const bucket = azureBucket(await server.makePlace());
    const before = entra.issued;
    const keyEnd = async (ttlMilliseconds: number) => {
      const { url } = await bucket.signGet("a", ttlMilliseconds);
      return Date.parse(new URL(url).searchParams.get("ske") ?? "");
    };
    const day = 86_400_000;
    const ends = await Promise.all([keyEnd(60_000), keyEnd(60_000), keyEnd(day / 2)]);
    expect(new Set(ends).size).toBe(1);
    expect(await keyEnd(2 * day)).toBeGreaterThanOrEqual(Date.now() + 2 * day - 60_000);
    expect(entra.issued - before).toBe(1);
  });

  it("reports a workload identity that Entra ID does not know", async () => {
    process.env["AZURE_CLIENT_ID"] = entra.environment.AZURE_TENANT_ID;
    try {
      const strange = objectStore({ bucket: azureBucket(await server.makePlace()) });
      const rejected = {
        code: "StoreUnavailable",
        message: expect.stringContaining("AADSTS700213") as string,
        hint: expect.stringContaining("workload identity") as string,
      };
      await expect(strange.has({ namespace: "team-a", checkpointId: "c1" })).rejects.toMatchObject(rejected);
      expect((await strange.probe()).problem).toMatchObject(rejected);
    } finally {
      process.env["AZURE_CLIENT_ID"] = entra.environment.AZURE_CLIENT_ID;
    }
  });
});
