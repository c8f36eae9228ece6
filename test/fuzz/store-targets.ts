import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { systemClock } from "../../src/base/clock.ts";
import { azureBucket } from "../../src/store/objects/azure/azure-bucket.ts";
import { type Bucket, readWhole } from "../../src/store/objects/bucket.ts";
import { gcsBucket } from "../../src/store/objects/gcs/gcs-bucket.ts";
import { readPublished } from "../../src/store/objects/layout.ts";
import { s3Bucket } from "../../src/store/objects/s3/s3-bucket.ts";
import { makeGcsAccount } from "../setup/google-account.ts";
import { jsonLike, textsLike } from "./inputs.ts";
import { digest, manifest, objectsGrant, ref } from "./samples.ts";
import { assertThat, codedLater, type FuzzTarget, target } from "./target.ts";

/** A server that stands in for a cloud, a proxy before it, or whatever the endpoint of a store is by mistake. */
class CloudServer {
  /** Chosen by each input. */
  status = 200;
  body = "";
  /** How often it was asked: a listing may not continue without end. */
  requests = 0;
  readonly #server: Server;

  private constructor() {
    this.#server = createServer((request, response) => {
      request.resume();
      this.requests += 1;
      const isOver = this.requests > mostPages;
      response
        .writeHead(isOver ? 404 : this.status, { "content-type": "application/xml" })
        .end(isOver ? "" : this.body);
    });
  }

  static async open(): Promise<CloudServer> {
    const server = new CloudServer();
    server.#server.listen(0, "127.0.0.1");
    await once(server.#server, "listening");
    return server;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }
}

const mostPages = 4;
/** Those that clients do not retry. */
const statuses = fc.constantFrom(200, 200, 200, 200, 206, 204, 301, 400, 403, 404, 412, 416);

interface CloudWorld {
  server: CloudServer;
  bucket: Bucket;
  directory: string;
}

function cloudTarget(name: string, bodies: fc.Arbitrary<string>, open: (url: string) => Bucket): FuzzTarget {
  return target<{ status: number; body: string }, CloudWorld>({
    name,
    share: 0.5,
    shortInputs: 30,
    inputs: fc.record({ status: statuses, body: bodies }),
    world: async () => {
      const server = await CloudServer.open();
      const directory = await mkdtemp(join(tmpdir(), "ramet-fuzz-"));
      const keyPath = join(directory, "key.json");
      await writeFile(keyPath, makeGcsAccount().keyFile);
      process.env["AWS_ACCESS_KEY_ID"] = "a";
      process.env["AWS_SECRET_ACCESS_KEY"] = "b";
      process.env["AZURE_STORAGE_KEY"] = Buffer.from("key").toString("base64");
      process.env["GOOGLE_APPLICATION_CREDENTIALS"] = keyPath;
      return { server, directory, bucket: open(server.url) };
    },
    check: async ({ status, body }, { server, bucket }) => {
      Object.assign(server, { status, body, requests: 0 });
      await codedLater(async () => {
        for await (const { key, sizeBytes, writtenAt } of bucket.list("team-a/")) {
          assertThat(typeof key === "string", "a key is not a text");
          assertThat(sizeBytes >= 0 && !Number.isNaN(writtenAt), `an object has ${sizeBytes} bytes of ${writtenAt}`);
        }
      });
      server.requests = 0;
      await codedLater(() => readWhole(bucket, "team-a/c-1/manifest.json"));
    },
    close: async ({ server, directory }) => {
      server.close();
      await rm(directory, { recursive: true });
    },
  });
}

const s3Listing = `<?xml version="1.0" encoding="UTF-8"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>b</Name><KeyCount>1</KeyCount><IsTruncated>true</IsTruncated><NextContinuationToken>n</NextContinuationToken><Contents><Key>p/team-a/c-1/manifest.json</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>&quot;e&quot;</ETag><Size>10</Size></Contents></ListBucketResult>`;
const azureListing = `<?xml version="1.0" encoding="utf-8"?><EnumerationResults ServiceEndpoint="http://a/" ContainerName="box"><Prefix>p/</Prefix><Blobs><Blob><Name>p/team-a/c-1/manifest.json</Name><Properties><Last-Modified>Thu, 01 Jan 2026 00:00:00 GMT</Last-Modified><Etag>e</Etag><Content-Length>10</Content-Length><BlobType>BlockBlob</BlobType></Properties></Blob></Blobs><NextMarker>n</NextMarker></EnumerationResults>`;
const xmlError = "<Error><Code>NoSuchKey</Code><Message>gone</Message><Details>d</Details></Error>";
const gcsListing = {
  items: [{ name: "p/team-a/c-1/manifest.json", size: "10", timeCreated: "2026-01-01T00:00:00Z" }],
  nextPageToken: "n",
};
const xmlTokens = [
  "<Size>",
  "</Size>",
  "<Contents>",
  "<Blob>",
  "<Key>",
  "<![CDATA[",
  "]]>",
  "<!--",
  "<!DOCTYPE a [<!ENTITY b 'c'>]>",
  "&b;",
  "&#0;",
  "&#x110000;",
  "<Last-Modified>x</Last-Modified>",
  "-1",
  "<a/>",
];

/** Clouds: listings, objects and errors. */
export const storeTargets = [
  cloudTarget("answers of S3", textsLike([s3Listing, xmlError], xmlTokens), (endpoint) =>
    s3Bucket({ driver: "s3", bucket: "bucket", prefix: "p", region: "us-east-1", endpoint }),
  ),
  cloudTarget(
    "answers of Google Cloud Storage",
    jsonLike([gcsListing, { error: { code: 404, status: "NOT_FOUND" } }]),
    (endpoint) => gcsBucket({ driver: "gcs", bucket: "bucket", prefix: "p", endpoint }),
  ),
  cloudTarget("answers of Azure", textsLike([azureListing, xmlError], xmlTokens), (url) =>
    azureBucket({ driver: "azure", account: "account", container: "box", prefix: "p", endpoint: `${url}/account` }),
  ),
  target({
    name: "publications that cells read",
    share: 0.5,
    inputs: fc.record({
      status: statuses,
      body: jsonLike([{ v: 1, attempt: objectsGrant.attempt, manifest }, xmlError]),
    }),
    world: () => CloudServer.open(),
    check: async (answer, server) => {
      Object.assign(server, answer, { requests: 0 });
      const publication = { url: `${server.url}/bucket/team-a/c-1/manifest.json`, headers: {} };
      const grant = {
        driver: "objects",
        access: "read",
        ...ref,
        expiresAt: 4e12,
        manifestDigest: digest,
        publication,
        files: [],
      } as const;
      await readPublished({ ...grant, files: [] }, { clock: systemClock }).catch((error: unknown) => {
        // The caller in the cell converts it.
        if ((error as Error).constructor.name !== "Refused") return codedLater(() => Promise.reject(error as Error));
        return undefined;
      });
    },
    close: (server) => {
      server.close();
    },
  }),
];
