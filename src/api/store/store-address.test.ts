import { describe, expect, it } from "vitest";
import { formatStoreAddress, parseStoreAddress, type StoreLocation } from "./store-address.ts";

const valid: [string, StoreLocation][] = [
  ["s3://checkpoints", { driver: "s3", bucket: "checkpoints" }],
  ["s3://checkpoints/ramet/prod", { driver: "s3", bucket: "checkpoints", prefix: "ramet/prod" }],
  ["s3://a.b-c/x?region=eu-central-1", { driver: "s3", bucket: "a.b-c", prefix: "x", region: "eu-central-1" }],
  [
    "s3://b12/p?region=us-east-1&endpoint=http%3A%2F%2Fminio.storage%3A9000&path-style=false&allow-insecure=true",
    {
      driver: "s3",
      bucket: "b12",
      prefix: "p",
      region: "us-east-1",
      endpoint: "http://minio.storage:9000",
      pathStyle: false,
      allowInsecure: true,
    },
  ],
  ["gs://my_checkpoints/ramet", { driver: "gcs", bucket: "my_checkpoints", prefix: "ramet" }],
  [
    "gs://checkpoints?endpoint=http%3A%2F%2Femulator%3A4443&allow-insecure=true",
    { driver: "gcs", bucket: "checkpoints", endpoint: "http://emulator:4443", allowInsecure: true },
  ],
  ["azblob://checkpoints?account=agents", { driver: "azure", container: "checkpoints", account: "agents" }],
  [
    "azblob://a-1/p/q?account=agents&endpoint=http%3A%2F%2F127.0.0.1%3A10000%2Fagents",
    {
      driver: "azure",
      container: "a-1",
      prefix: "p/q",
      account: "agents",
      endpoint: "http://127.0.0.1:10000/agents",
    },
  ],
];

it.each(valid)("parses and formats %s", (address, location) => {
  expect(parseStoreAddress(address)).toEqual(location);
  expect(formatStoreAddress(location)).toBe(address);
});

it("accepts an endpoint that is not percent-encoded", () => {
  const location = parseStoreAddress("s3://bucket?endpoint=https://s3.example.com&path-style=true");
  expect(location).toEqual({ driver: "s3", bucket: "bucket", endpoint: "https://s3.example.com", pathStyle: true });
});

describe("parseStoreAddress", () => {
  it.each([
    ["/var/lib/ramet", "begins with s3://"],
    ["ftp://bucket", "begins with s3://"],
    ["s3://", "bucket"],
    ["s3://Bucket", "bucket"],
    ["s3://bucket//x", "prefix"],
    ["s3://bucket/.hidden", "prefix"],
    ["s3://bucket/x/", "prefix"],
    ["s3://bucket?toString=1", "valid are region, endpoint, path-style"],
    ["s3://bucket?region=Europe!", "region"],
    ["s3://bucket?path-style=yes", "pathStyle"],
    ["s3://bucket?endpoint=ftp://x", "endpoint"],
    ["s3://bucket?endpoint=https://x/path", "endpoint"],
    ["s3://bucket?endpoint=https://user:pass@x", "endpoint"],
    ["s3://bucket?endpoint=http://minio.storage:9000", "endpoint has no TLS"],
    ["s3://bucket?endpoint=http://minio.storage:9000&allow-insecure=false", "endpoint has no TLS"],
    ["s3://bucket?endpoint=http://127.0.0.1.example.org", "endpoint has no TLS"],
    ["gs://bucket?endpoint=http://emulator:4443", "endpoint has no TLS"],
    ["azblob://checkpoints?account=agents&endpoint=http://agents", "endpoint has no TLS"],
    ["gs://B", "bucket"],
    ["gs://bucket?region=us-central1", "valid are endpoint"],
    ["azblob://checkpoints", "account"],
    ["azblob://check--points?account=agents", "container"],
    ["azblob://checkpoints?account=Agents", "account"],
    ["azblob://checkpoints?account=agents&region=westeurope", "valid are account, endpoint"],
    ["azblob://checkpoints?account=agents&endpoint=https://key@x", "endpoint"],
  ])("rejects %s", (address, why) => {
    expect(() => parseStoreAddress(address)).toThrow(why);
  });

  it("rejects an address with keys, and does not repeat them", () => {
    const parse = () => parseStoreAddress("s3://AKIA:hunter2@bucket");
    expect(parse).toThrow("credentials come from the environment");
    expect(parse).not.toThrow("hunter2");
  });
});
