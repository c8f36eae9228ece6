import { createHash } from "node:crypto";
import { createReadStream, createWriteStream } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Readable, Transform } from "node:stream";
import { pipeline } from "node:stream/promises";
import { RametError } from "../../../base/errors.ts";
import type { PublicFetch } from "./public-fetch.ts";

/**
 * Fetches a URL into a temporary file and returns its content if it has the digest.
 * @throws RametError `InvalidArgument` for another digest or a file that is too large, `NotFound` for an HTTP error,
 *   `Unavailable` when the server is unreachable
 */
export async function fetchContent(fetch: PublicFetch, { url, sha256, signal }: FetchRequest): Promise<Readable> {
  const body = await fetch(url, signal);
  const directory = await mkdtemp(join(tmpdir(), "ramet-fetch-"));
  const path = join(directory, "content");
  const remove = (): void => {
    rm(directory, { recursive: true, force: true }).catch(() => undefined);
  };
  try {
    const { stream, digest } = hashed(mostBytes, () => tooMuch(url));
    await pipeline(body, stream, createWriteStream(path), { signal });
    const found = digest();
    if (found !== sha256) throw otherBytes(url, found);
    return createReadStream(path).once("close", remove);
  } catch (error) {
    remove();
    throw error instanceof RametError ? error : broken(url, error);
  }
}

interface FetchRequest {
  url: string;
  /** 64 hex digits. */
  sha256: string;
  signal: AbortSignal;
}

/** Passes bytes on, up to a limit, and computes their digest: a sandbox and a server can send without end. */
export function hashed(limitBytes: number, tooLarge: () => RametError): { stream: Transform; digest: () => string } {
  const hash = createHash("sha256");
  let bytes = 0;
  const stream = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      bytes += chunk.length;
      hash.update(chunk);
      if (bytes > limitBytes) done(tooLarge());
      else done(null, chunk);
    },
  });
  return { stream, digest: () => hash.digest("hex") };
}

const mostBytes = 1024 ** 3;

function otherBytes(url: string, found: string): RametError {
  return new RametError("InvalidArgument", `The sha256 of ${url} differs: it is ${found}`, {
    hint: "If the file was changed on purpose, set its new sha256 in the step",
  });
}

function tooMuch(url: string): RametError {
  return new RametError("InvalidArgument", `${url} is larger than 1 GiB`, {
    hint: "Download it in a run step inside the sandbox",
  });
}

function broken(url: string, cause: unknown): RametError {
  return new RametError("Unavailable", `Fetching ${url} failed: ${RametError.from(cause).message}`, {
    retryable: true,
    cause,
  });
}
