import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { open, readFile } from "node:fs/promises";
import type { SignedRequest } from "../../api/cell/grant.ts";
import { hashFile, type ContentDigest } from "../content-digest.ts";
import { callSigned } from "./signed-http.ts";

/** From which size on a store is asked first whether it wants a file. */
const largeBytes = 1 << 20;
const highWaterMark = 1 << 20;

export interface UploadDigest extends ContentDigest {
  /** Base64, as it stands in a request's header. */
  md5: string;
}

/** What a file has to be when it arrives. */
export async function uploadDigest(path: string, signal: AbortSignal): Promise<UploadDigest> {
  const [sha256, md5] = [createHash("sha256"), createHash("md5")];
  const file = await open(path);
  const sizeBytes = await hashFile(file, [sha256, md5], signal).finally(() => file.close());
  return { digest: `sha256:${sha256.digest("hex")}`, md5: md5.digest("base64"), sizeBytes };
}

/**
 * Uploads a file; whether the store took it: it refuses where it has one. The MD5 goes with it, so that the store keeps these
 * very bytes or none: it refuses others, and what it has after a connection broke in the middle can be no others. (The ETag of
 * its answer is no MD5 where a bucket is encrypted by a customer's keys.)
 */
export async function uploadFile(
  request: SignedRequest,
  path: string,
  { md5, sizeBytes, signal }: UploadDigest & { signal: AbortSignal },
): Promise<boolean> {
  const headers = { "content-length": `${sizeBytes}`, "content-md5": md5 };
  const content =
    sizeBytes < largeBytes
      ? { headers, body: await readFile(path) }
      : { headers: { ...headers, expect: "100-continue" }, upload: () => createReadStream(path, { highWaterMark }) };
  const { outcome, tries } = await callSigned(request, { method: "PUT", ...content, signal });
  return outcome === "done" || tries > 1;
}
