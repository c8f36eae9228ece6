import { isIP } from "node:net";
import type { Readable } from "node:stream";
import { Agent, type Dispatcher, request as send } from "undici";
import { defined } from "../base/defined.ts";
import { RametError } from "../base/errors.ts";
import { guardedLookup, publicOnly } from "../base/special-addresses.ts";
import { dockerHub, type ImageReference, parseImageReference, registryPathOf } from "../api/names/image-reference.ts";

export interface RegistryAccess {
  /** IPv4 ranges of the cluster, which count as private. */
  clusterRanges?: readonly string[] | undefined;
  /** Registries, as `host` or `host:port`, that may have addresses that are not public. */
  privateRegistries?: readonly string[] | undefined;
  /** The same, and they are read by HTTP without TLS. */
  insecureRegistries?: readonly string[] | undefined;
  /** Allows all addresses, where nobody else chooses the registry. @default false */
  anyAddress?: boolean;
}

export interface RegistryAnswer {
  statusCode: number;
  headers: Record<string, string | string[] | undefined>;
  body: Readable & { dump(): Promise<void> };
}

export interface RegistryRequest {
  method?: "GET" | "POST";
  headers?: Record<string, string>;
  body?: string;
  signal: AbortSignal;
}

/**
 * Connects to registries on behalf of users, whose image names and whose registries' answers name the servers: from the controllers'
 * network, only public addresses by HTTPS, except for the registries that an administrator has named.
 */
export class RegistryTransport {
  readonly #private: ReadonlySet<string>;
  readonly #insecure: ReadonlySet<string>;
  readonly #isPublic: (address: string) => boolean;
  readonly #guarded: Dispatcher;
  readonly #open = new Agent({ connect: { timeout: connectMilliseconds }, maxHeaderSize });

  constructor({ clusterRanges, privateRegistries = [], insecureRegistries = [], anyAddress = false }: RegistryAccess) {
    this.#insecure = new Set(insecureRegistries);
    this.#private = new Set([...privateRegistries, ...insecureRegistries]);
    this.#isPublic = anyAddress ? () => true : publicOnly(clusterRanges);
    const lookup = guardedLookup(this.#isPublic, notPublic);
    this.#guarded = new Agent({ connect: { lookup, timeout: connectMilliseconds }, maxHeaderSize });
  }

  /** The address of a registry: by HTTP only if an administrator has said so. */
  originOf(host: string): string {
    return `${this.#insecure.has(host) ? "http" : "https"}://${host}`;
  }

  /**
   * Sends one request. Redirects are the caller's business.
   * @throws RametError `Forbidden` for a server that may not be reached, `Unavailable` for one that cannot be
   */
  async send(url: URL, { method = "GET", headers, body, signal }: RegistryRequest): Promise<RegistryAnswer> {
    const { host, hostname, protocol } = url;
    if (protocol !== "https:" && !(protocol === "http:" && this.#insecure.has(host))) {
      throw new RametError("Forbidden", `${url.origin} is not read by HTTP without TLS`, {
        hint: `Serve it by HTTPS, or let an administrator set ${insecureFlag} ${host}`,
      });
    }
    const isNamed = this.#private.has(host);
    const literal = hostname.replace(/^\[|\]$/g, "");
    if (!isNamed && isIP(literal) !== 0 && !this.#isPublic(literal)) throw notPublic(host);
    const dispatcher = isNamed ? this.#open : this.#guarded;
    return send(url, defined({ method, dispatcher, signal, headers, body })).catch((error: unknown) => {
      throw unreachable(url, error);
    });
  }

  async close(): Promise<void> {
    await Promise.all([this.#open.destroy(), this.#guarded.destroy()]);
  }
}

/** The flags of `ramet controller`. */
export const privateFlag = "--private-registry";
export const insecureFlag = "--insecure-registry";

const connectMilliseconds = 5_000;
const maxHeaderSize = 16 * 1024;

function notPublic(host: string): RametError {
  return new RametError("Forbidden", `${host} has no public address`, {
    hint: `If it is a registry of yours, let an administrator set ${privateFlag} ${host}`,
  });
}

function unreachable({ host }: URL, error: unknown): RametError {
  for (const each of [error, error instanceof Error ? error.cause : undefined]) {
    if (each instanceof RametError) return each;
  }
  const why = error instanceof Error ? error.message || (error as NodeJS.ErrnoException).code : String(error);
  return new RametError("Unavailable", `${host} cannot be reached: ${why ?? "no reason given"}`, {
    retryable: true,
    cause: error,
  });
}

/** Where a registry serves an image: names of Docker Hub are completed as container runtimes do. */
export interface ImageAddress extends ImageReference {
  /** The host in image names, with the port. */
  host: string;
  /** The repository below the host. */
  path: string;
}

/** @throws RametError `InvalidArgument` for an invalid image name */
export function imageAddress(name: string): ImageAddress {
  const reference = name.length > mostNameCharacters ? undefined : parseImageReference(name);
  if (reference === undefined) {
    const what = `${JSON.stringify(name.slice(0, mostNameCharacters))} is not an image name`;
    throw new RametError("InvalidArgument", what, { hint: "Write it as registry.example/repository:tag" });
  }
  return { ...reference, ...registryPathOf(reference.repository) };
}

/** The limit of container runtimes: 255 for the repository, 128 for the tag, and the digest. */
const mostNameCharacters = 512;

/** The host and port to connect to. */
export function serverOf(host: string): string {
  return host === dockerHub ? "registry-1.docker.io" : host;
}
