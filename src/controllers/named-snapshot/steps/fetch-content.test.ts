import { createHash } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, expect, it } from "vitest";
import { fetchContent, publicFetch } from "./fetch-content.ts";

let base: string;
const server = createServer((request, response) => {
  if (request.url === "/file") response.end("content");
  else if (request.url === "/moved") response.writeHead(302, { location: "/file" }).end();
  else if (request.url === "/inside") response.writeHead(302, { location: "http://169.254.169.254/latest" }).end();
  else if (request.url === "/circle") response.writeHead(302, { location: "/circle" }).end();
  else response.writeHead(404).end("secret of the server");
});
beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(() => {
  server.close();
});

const { signal } = new AbortController();
const sha256 = createHash("sha256").update("content").digest("hex");
const loopback = publicFetch({ isAllowed: (address) => address === "127.0.0.1" });
const get = (path: string, digest = sha256): Promise<Readable> =>
  fetchContent(loopback, { url: `${base}${path}`, sha256: digest, signal });

it.each(["/file", "/moved"])("returns %s if it has the digest", async (path) => {
  expect(await text(await get(path))).toBe("content");
});

it("rejects content with another digest, and reports its digest", async () => {
  await expect(get("/file", "0".repeat(64))).rejects.toThrow(`differs: it is ${sha256}`);
});

it("rejects an HTTP error without showing its page", async () => {
  await expect(get("/nothing")).rejects.toThrow(/^Cannot fetch .*: the server responded with status 404$/);
});

it("checks the target of each redirect, and limits their number", async () => {
  await expect(get("/inside")).rejects.toThrow("169.254.169.254 is not a public address");
  await expect(get("/circle")).rejects.toThrow("more than 5 redirects");
});

it.each([
  "http://127.0.0.1/",
  "http://localhost/",
  "http://[::1]/",
  "http://[::ffff:10.0.0.1]/",
  "http://10.1.2.3/",
  "http://192.168.1.1/",
  "http://172.20.0.1/",
  "http://100.64.1.1/",
  "http://169.254.169.254/latest/meta-data",
  "http://[fd00::1]/",
  "http://0.0.0.0/",
  "http://168.63.129.16/machine?comp=goalstate",
  "http://100.100.100.200/latest/meta-data",
  "http://192.0.0.192/opc/v2/instance",
  "http://[::ffff:a9fe:a9fe]/",
  "http://[64:ff9b::a9fe:a9fe]/",
  "http://[2002:a9fe:a9fe::1]/",
])("rejects %s, which is not public", async (url) => {
  await expect(publicFetch()(url, signal)).rejects.toMatchObject({ code: "Forbidden" });
});

it("rejects an address in the cluster's ranges", async () => {
  const fetching = publicFetch({ clusterRanges: ["203.0.113.0/24"] });
  await expect(fetching("http://203.0.113.7/", signal)).rejects.toMatchObject({
    code: "Forbidden",
    message: expect.stringContaining("203.0.113.7 is not a public address") as string,
  });
});
