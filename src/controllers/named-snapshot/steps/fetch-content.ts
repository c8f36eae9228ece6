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
 * The bytes at a URL, given away only when they have the digest: through a file, as they may be more than memory holds.
 * @throws RametError `InvalidArgument` for other bytes or too many of them, `NotFound` for an answer that is none,
 *   `Unavailable` when the server cannot be reached
 */
export async function fetchContent(fetch: PublicFetch, { url, sha256, signal }: FetchRequest): Promise<Readable> {
  const body = await fetch(url, signal);
  const directory = await mkdtemp(join(tmpdir(), "ramet-fetch-"));
  const path = join(directory, "content");
  const remove = (): void => {
    rm(directory, { recursive: true, force: true }).catch(() => undefined);
  };
  try {
    const hash = createHash("sha256");
    await pipeline(body, bounded(url, hash), createWriteStream(path), { signal });
    const found = hash.digest("hex");
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

function bounded(url: string, hash: ReturnType<typeof createHash>): Transform {
  let bytes = 0;
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      bytes += chunk.length;
      hash.update(chunk);
      if (bytes > mostBytes) done(tooMuch(url));
      else done(null, chunk);
    },
  });
}

const mostBytes = 1024 ** 3;

function otherBytes(url: string, found: string): RametError {
  return new RametError("InvalidArgument", `${url} is not the file that was named: its sha256 is ${found}`, {
    hint: "If the file was meant to change, write its new sha256 into the step",
  });
}

function tooMuch(url: string): RametError {
  return new RametError("InvalidArgument", `${url} is larger than 1 GiB`, {
    hint: "Fetch it in a run step, from within the sandbox",
  });
}

function broken(url: string, cause: unknown): RametError {
  return new RametError("Unavailable", `fetching ${url} failed: ${RametError.from(cause).message}`, {
    retryable: true,
    cause,
  });
}
