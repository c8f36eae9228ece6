// Text of registries is parsed only here: the code and the message of their errors.
import { createHash } from "node:crypto";
import * as z from "zod";
import { jsonValue } from "../base/canonical-json.ts";
import { defined } from "../base/defined.ts";
import { RametError } from "../base/errors.ts";
import { readBody } from "../base/http.ts";
import type { PullCredentials } from "./pull-credentials.ts";
import { type ImageAddress, serverOf, type RegistryAnswer, type RegistryTransport } from "./registry-transport.ts";
import { authorizationFor, parseChallenge } from "./registry-tokens.ts";

/** A document of a registry. Its digest is that of its bytes. */
export interface RegistryDocument {
  mediaType: string;
  digest: string;
  content: unknown;
}

/** Reads one repository by the OCI distribution API, with one account. */
export class RegistryClient {
  readonly #transport: RegistryTransport;
  readonly #image: ImageAddress;
  readonly #credentials: PullCredentials | undefined;
  #authorization: string | undefined;

  constructor(transport: RegistryTransport, image: ImageAddress, credentials: PullCredentials | undefined) {
    this.#transport = transport;
    this.#image = image;
    this.#credentials = credentials;
  }

  /** @param reference a tag or a digest @throws RametError as `#read` */
  async manifest(reference: string, signal: AbortSignal): Promise<RegistryDocument> {
    const expected = reference.includes(":") ? reference : undefined;
    return this.#read(`manifests/${reference}`, { limitBytes: mostManifestBytes, expected, signal });
  }

  /** A blob with JSON, such as an image's configuration. @throws RametError as `#read` */
  async blob(digest: string, signal: AbortSignal): Promise<RegistryDocument> {
    return this.#read(`blobs/${digest}`, { limitBytes: mostConfigBytes, expected: digest, signal });
  }

  /**
   * @throws RametError `NotFound`; `Unauthorized`; `Forbidden` for a server that may not be reached; `Unavailable`, mostly
   *   retryable; `InvalidArgument` for an answer that is too large or malformed, or has another digest
   */
  async #read(
    what: string,
    { limitBytes, expected, signal }: { limitBytes: number; expected: string | undefined; signal: AbortSignal },
  ): Promise<RegistryDocument> {
    const { host, path } = this.#image;
    const url = new URL(`${this.#transport.originOf(serverOf(host))}/v2/${path}/${what}`);
    const answer = await this.#authorized(url, signal);
    if (answer.statusCode !== 200) throw await unsuccessful(answer);
    const bytes = await readBody(answer.body, limitBytes, "its answer").catch((error: unknown) => {
      throw error instanceof RametError ? error : broken(error);
    });
    const digest = `sha256:${createHash("sha256").update(bytes).digest("hex")}`;
    if (expected !== undefined && digest !== expected) {
      throw new RametError("InvalidArgument", `its content of ${expected} has another digest`);
    }
    const mediaType = String(answer.headers["content-type"] ?? "").split(";")[0] ?? "";
    return { mediaType, digest, content: parse(bytes) };
  }

  /** Sends the request, with a token if the registry asks for one, and follows redirects to where it stores blobs. */
  async #authorized(url: URL, signal: AbortSignal): Promise<RegistryAnswer> {
    const first = await this.#follow(url, signal);
    if (first.statusCode !== 401) return first;
    await first.body.dump();
    const challenge = parseChallenge([first.headers["www-authenticate"]].flat()[0]);
    if (challenge === undefined) throw unauthorized(this.#credentials);
    const { path } = this.#image;
    const request = { challenge, path, credentials: this.#credentials, signal };
    this.#authorization = await authorizationFor(this.#transport, request);
    if (this.#authorization === undefined) throw unauthorized(this.#credentials);
    const second = await this.#follow(url, signal);
    if (second.statusCode !== 401 && second.statusCode !== 403) return second;
    await second.body.dump();
    throw unauthorized(this.#credentials);
  }

  async #follow(url: URL, signal: AbortSignal): Promise<RegistryAnswer> {
    for (let next = url, hops = 0; hops <= mostRedirects; hops++) {
      // The token is the registry's. A storage service gets a signed URL.
      const token = next.host === url.host ? this.#authorization : undefined;
      const headers = defined({ accept: accepted, authorization: token });
      const answer = await this.#transport.send(next, { headers, signal });
      const { location } = answer.headers;
      if (answer.statusCode < 300 || answer.statusCode >= 400 || typeof location !== "string") return answer;
      await answer.body.dump();
      const target = URL.parse(location, next.href);
      if (target === null) throw new RametError("InvalidArgument", "it redirects to an invalid address");
      next = target;
    }
    throw new RametError("InvalidArgument", `it redirects more than ${mostRedirects} times`);
  }
}

export const indexTypes = [
  "application/vnd.oci.image.index.v1+json",
  "application/vnd.docker.distribution.manifest.list.v2+json",
] as const;

const manifestTypes = [
  "application/vnd.oci.image.manifest.v1+json",
  "application/vnd.docker.distribution.manifest.v2+json",
] as const;

const accepted = [...indexTypes, ...manifestTypes, "application/octet-stream", "application/json"].join(", ");

/** The distribution specification lets registries refuse larger manifests. */
const mostManifestBytes = 4 * 1024 * 1024;
const mostConfigBytes = 4 * 1024 * 1024;
const mostRedirects = 5;

function unauthorized(credentials: PullCredentials | undefined): RametError {
  const why = credentials === undefined ? "it asks for credentials" : "it refuses the credentials";
  return new RametError("Unauthorized", why, {
    hint: "Name a Secret with credentials for the registry in imagePullSecrets of the template or of its service account",
  });
}

/** The registry's own words, if it has any: the code and the message of its first error. */
async function unsuccessful({ statusCode, body }: RegistryAnswer): Promise<RametError> {
  const text = await readBody(body, mostErrorBytes, "its error").then(
    (bytes) => bytes.toString("utf8"),
    () => "",
  );
  const words = errorWords(text);
  const why = `it responded with status ${statusCode}${words === "" ? "" : `: ${words}`}`;
  if (statusCode === 404) return new RametError("NotFound", why);
  if (statusCode === 401 || statusCode === 403) return new RametError("Unauthorized", why);
  const passing = statusCode === 429 || statusCode >= 500;
  return new RametError("Unavailable", why, { retryable: passing });
}

const mostErrorBytes = 16 * 1024;

function errorWords(text: string): string {
  const [first] = ErrorAnswer.safeParse(jsonValue(text)).data?.errors ?? [];
  const words = [first?.code, first?.message].filter((word) => typeof word === "string");
  // A condition and a terminal show it.
  return words
    .join(": ")
    .replaceAll(/[^\x20-\x7e]/g, "?")
    .slice(0, 200);
}

const ErrorAnswer = z.object({ errors: z.array(z.object({ code: z.unknown(), message: z.unknown() })) });

function broken(cause: unknown): RametError {
  const why = cause instanceof Error ? cause.message : String(cause);
  return new RametError("Unavailable", `its answer was interrupted: ${why}`, { retryable: true, cause });
}

function parse(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString("utf8"));
  } catch {
    throw new RametError("InvalidArgument", "its answer is not JSON");
  }
}

const Digest = z.string().regex(/^sha256:[0-9a-f]{64}$/, "must be sha256: and 64 hex digits");

const Descriptor = z.object({
  mediaType: z.string().default(""),
  digest: Digest,
  platform: z.object({ architecture: z.string(), os: z.string() }).optional(),
});
export type Descriptor = z.infer<typeof Descriptor>;

/** An OCI image index or Docker's manifest list: one manifest for each platform. */
export const Index = z.object({ manifests: z.array(Descriptor).min(1).max(1_000) });

/** The OCI image manifest, or Docker's version 2. Layers are not read. */
export const Manifest = z.object({ config: Descriptor });

const Strings = z.array(z.string()).nullish();

/** The OCI image configuration: the fields that start a container. */
export const Configuration = z.object({
  architecture: z.string().min(1),
  os: z.string(),
  config: z
    .object({
      Entrypoint: Strings,
      Cmd: Strings,
      Env: Strings,
      WorkingDir: z.string().nullish(),
      User: z.string().nullish(),
    })
    .nullish(),
});
