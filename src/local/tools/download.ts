import { createHash } from "node:crypto";
import { createReadStream, createWriteStream } from "node:fs";
import { chmod, rm } from "node:fs/promises";
import { join } from "node:path";
import { Readable, Transform } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createZstdDecompress } from "node:zlib";
import { EnvHttpProxyAgent, fetch, type Response } from "undici";
import { RametError } from "../../base/errors.ts";
import { runProgram } from "./run-program.ts";
import type { Release } from "./tool.ts";

export interface DownloadOptions {
  /** Called as bytes arrive. `totalBytes` is undefined if the server does not send it. */
  onBytes: (bytes: number, totalBytes: number | undefined) => void;
  signal?: AbortSignal | undefined;
}

/** Downloads official releases. Does not retry a host that was unreachable. */
export interface Downloader {
  /** Downloads the release's files into `directory` and verifies its pinned digest. */
  fetchInto(directory: string, name: string, release: Release, options: DownloadOptions): Promise<void>;
  close(): Promise<void>;
}

const connectMilliseconds = 5000;

/** Uses the proxies in `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`, as curl does. */
export function makeDownloader(environment: NodeJS.ProcessEnv): Downloader {
  const setting = (name: string): string => environment[name.toLowerCase()] ?? environment[name] ?? "";
  const dispatcher = new EnvHttpProxyAgent({
    httpProxy: setting("HTTP_PROXY"),
    httpsProxy: setting("HTTPS_PROXY"),
    noProxy: setting("NO_PROXY"),
    connect: { timeout: connectMilliseconds },
    headersTimeout: connectMilliseconds,
    bodyTimeout: 30_000,
  });
  const unreachable = new Map<string, string>();

  const get = async (url: string, signal: AbortSignal | undefined): Promise<Response> => {
    const { host } = new URL(url);
    const known = unreachable.get(host);
    if (known !== undefined) throw new RametError("Unavailable", known);
    try {
      const response = await fetch(url, { dispatcher, signal: signal ?? null });
      if (response.ok) return response;
      await response.body?.cancel();
      throw new RametError("Unavailable", `${url} responded with ${response.status}`);
    } catch (error) {
      signal?.throwIfAborted();
      if (error instanceof RametError) throw error;
      const why = `${host} is unreachable (${reason(error)})`;
      unreachable.set(host, why);
      throw new RametError("Unavailable", why, { cause: error });
    }
  };

  return {
    fetchInto: async (directory, name, release, { onBytes, signal }) => {
      const { digest, format, url } = release;
      if (digest === undefined) {
        throw new RametError("Unavailable", `${url} is not downloaded: Ramet has no digest of it for ${process.arch}`);
      }
      const [algorithm = "", expected] = digest.split(":");
      const target = format.kind === "program" ? join(directory, name) : join(directory, "download");
      const actual = await save(await get(url, signal), target, { algorithm, onBytes, signal });
      if (actual !== expected) {
        throw new RametError("Unavailable", `${url} does not match the digest ${digest} that Ramet has of it`, {
          hint: "Try again, or check for a proxy that changes downloads",
        });
      }
      if (format.kind === "program") await chmod(target, 0o755);
      else await unpack(target, directory, format, signal);
    },
    close: () => dispatcher.close(),
  };
}

interface SaveOptions {
  algorithm: string;
  onBytes: DownloadOptions["onBytes"];
  signal: AbortSignal | undefined;
}

async function save(response: Response, path: string, { algorithm, onBytes, signal }: SaveOptions): Promise<string> {
  if (response.body === null) throw new RametError("Unavailable", `${response.url} sent an empty response`);
  const hash = createHash(algorithm);
  const length = response.headers.get("content-length");
  let bytes = 0;
  const measure = new Transform({
    transform: (chunk: Buffer, _encoding, done) => {
      hash.update(chunk);
      bytes += chunk.length;
      onBytes(bytes, length === null ? undefined : Number(length));
      done(null, chunk);
    },
  });
  await pipeline(Readable.fromWeb(response.body), measure, createWriteStream(path), { signal });
  return hash.digest("hex");
}

type Archive = Exclude<Release["format"], { kind: "program" }>;

async function unpack(archive: string, directory: string, format: Archive, signal?: AbortSignal): Promise<void> {
  const args = ["-x", "-C", directory, `--strip-components=${format.strip}`, "--no-same-owner"];
  const options = { what: "Unpacking the release", signal };
  if (format.kind === "tar.gz") {
    await runProgram("tar", [...args, "-z", "-f", archive, ...format.members], options);
  } else {
    // Node decompresses Zstandard, so `zstd` need not be installed.
    const input = createReadStream(archive).pipe(createZstdDecompress());
    await runProgram("tar", [...args, "-f", "-", ...format.members], { ...options, input });
  }
  await rm(archive);
}

function reason(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  return cause instanceof Error ? cause.message : String(cause);
}
