import { readFile } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import * as z from "zod";
import { mostImageBytes, ResolvedImage } from "../api/pod/resolved-image.ts";
import { type Clock, systemClock } from "../base/clock.ts";
import { RametError } from "../base/errors.ts";
import { within } from "../base/within.ts";
import {
  Configuration,
  type Descriptor,
  Index,
  indexTypes,
  Manifest,
  RegistryClient,
  type RegistryDocument,
} from "./registry-client.ts";
import { credentialsFor, type PullCredentials, type PullKeyring, parsePullSecret } from "./pull-credentials.ts";
import { type ImageAddress, imageAddress, RegistryTransport } from "./registry-transport.ts";

export interface ImageRequest {
  /** As in a Pod. */
  name: string;
  /** The architecture that the Pod asks for. @default any, `preferred` first */
  architecture?: string | undefined;
  /** The architecture to choose of several. As in Go: `amd64`. */
  preferred: string;
  keyring: PullKeyring;
  signal?: AbortSignal;
}

/**
 * Resolves an image's name to the manifest for one architecture, and reads how the image is started. Nothing of a registry is
 * trusted: every answer has a limit of bytes, all of them together a limit of time, and content is compared with its digest.
 * @throws RametError `InvalidArgument`, `ImageNotFound`, `Unauthorized`, `Forbidden`, `NeedNotMet`, `Timeout`, `Unavailable`
 */
export async function lookUpImage(
  { name, keyring, signal, ...wanted }: ImageRequest,
  { transport, clock }: { transport: RegistryTransport; clock: Clock },
): Promise<ResolvedImage> {
  const image = imageAddress(name);
  const deadline = { clock, milliseconds: lookupMilliseconds, what: "it", retryable: true, signal };
  const found = credentialsFor(image, keyring);
  const read = async (limit: AbortSignal): Promise<ResolvedImage> => {
    let refused: RametError | undefined;
    for (const credentials of found.length === 0 ? [undefined] : found.slice(0, mostAccounts)) {
      try {
        return await readImage(name, image, { ...wanted, transport, credentials, signal: limit });
      } catch (error) {
        const own = RametError.from(error);
        if (own.code !== "Unauthorized") throw own;
        refused = own;
      }
    }
    throw refused ?? new RametError("Unauthorized", "it refuses the credentials");
  };
  try {
    return await within(deadline, read);
  } catch (error) {
    signal?.throwIfAborted();
    throw explained(name, image, error);
  }
}

const lookupMilliseconds = 10_000;

/** A kubelet tries all. The time is limited. */
const mostAccounts = 8;

interface ReadOptions extends Pick<ImageRequest, "architecture" | "preferred"> {
  transport: RegistryTransport;
  credentials: PullCredentials | undefined;
  signal: AbortSignal;
}

async function readImage(name: string, image: ImageAddress, options: ReadOptions): Promise<ResolvedImage> {
  const { transport, credentials, signal } = options;
  const client = new RegistryClient(transport, image, credentials);
  const root = await client.manifest(image.digest ?? image.tag ?? "latest", signal);
  const chosen = await manifestFor(client, root, options);
  const { config: descriptor } = parse(Manifest, chosen.content, "manifest");
  const { content } = await client.blob(descriptor.digest, signal);
  const { architecture, os, config } = parse(Configuration, content, "configuration");
  const wanted = options.architecture;
  if (os !== "linux" || (wanted !== undefined && wanted !== architecture)) {
    throw otherPlatform([`${os}/${architecture}`], wanted);
  }
  const resolved = ResolvedImage.parse({
    name,
    reference: `${image.repository}@${chosen.digest}`,
    config: { ...fieldsOf(config ?? {}), digest: descriptor.digest, architecture },
  });
  if (JSON.stringify(resolved).length <= mostImageBytes) return resolved;
  throw new RametError("InvalidArgument", `its configuration has more than ${mostImageBytes} bytes`);
}

/** Kubernetes' spelling of the fields. Null and empty ones are absent. */
function fieldsOf({ Entrypoint, Cmd, Env, WorkingDir, User }: NonNullable<z.infer<typeof Configuration>["config"]>) {
  return {
    entrypoint: Entrypoint ?? [],
    cmd: Cmd ?? [],
    env: Env ?? [],
    workingDir: WorkingDir ?? "",
    ...(typeof User === "string" && User !== "" && { userName: User }),
  };
}

/** The manifest of an image, or of an index for one architecture. An index can name an index. */
async function manifestFor(
  client: RegistryClient,
  document: RegistryDocument,
  { architecture, preferred, signal }: ReadOptions,
): Promise<RegistryDocument> {
  let current = document;
  for (let depth = 0; isIndex(current); depth++) {
    if (depth === mostIndexes) throw new RametError("InvalidArgument", "its indexes name each other");
    const { manifests } = parse(Index, current.content, "index");
    const linux = manifests.filter(({ platform }) => platform === undefined || platform.os === "linux");
    const has = (one: string) => (each: Descriptor) => each.platform?.architecture === one;
    const chosen = linux.find(has(architecture ?? preferred)) ?? (architecture === undefined ? linux[0] : undefined);
    if (chosen === undefined) throw otherPlatform(manifests.map(platformOf), architecture);
    current = await client.manifest(chosen.digest, signal);
  }
  return current;
}

const mostIndexes = 3;

function isIndex({ mediaType, content }: RegistryDocument): boolean {
  if ((indexTypes as readonly string[]).includes(mediaType)) return true;
  return z.object({ manifests: z.array(z.unknown()) }).safeParse(content).success;
}

function platformOf({ platform }: Descriptor): string {
  return platform === undefined ? "an unknown platform" : `${platform.os}/${platform.architecture}`;
}

function otherPlatform(platforms: string[], wanted: string | undefined): RametError {
  const named = [...new Set(platforms)].slice(0, 8).join(", ");
  return new RametError("NeedNotMet", `the image is for ${named}, not for linux/${wanted ?? "any architecture"}`, {
    hint: "Use an image for the nodes' architecture, or the nodeSelector kubernetes.io/arch of the image's",
  });
}

function parse<T extends z.ZodType>(schema: T, content: unknown, what: string): z.infer<T> {
  const result = schema.safeParse(content);
  if (result.success) return result.data;
  const [issue] = result.error.issues;
  const where = issue?.path.join(".") ?? "";
  throw new RametError("InvalidArgument", `its ${what} is malformed: ${where} ${issue?.message ?? ""}`);
}

/** The error with the image, the registry, and what can be done. */
function explained(name: string, { host }: ImageAddress, error: unknown): RametError {
  const { code, message, hint, retryable } = RametError.from(error);
  const why = `Reading the image ${name} from ${host} failed: ${message}`;
  return new RametError(code === "NotFound" ? "ImageNotFound" : code, why, { hint, retryable, cause: error });
}

export interface RecordOptions {
  /** As in Go: `amd64`, `arm64`. */
  architecture: string;
  environment?: NodeJS.ProcessEnv;
  clock?: Clock;
}

/**
 * Looks an image up on the machine of a user, with the credentials of `docker login`, for controllers that cannot reach its registry.
 * The machine's user names the image, so every address is allowed. As for Docker, only a registry on this machine is read by HTTP.
 * @throws RametError as {@link lookUpImage}
 */
export async function recordImage(name: string, options: RecordOptions): Promise<ResolvedImage> {
  const { architecture, environment = process.env, clock = systemClock } = options;
  const { host } = imageAddress(name);
  const isHere = /^(localhost|127(\.\d+){3}|\[::1\])(:\d+)?$/.test(host);
  const transport = new RegistryTransport({ anyAddress: true, insecureRegistries: isHere ? [host] : [] });
  try {
    const keyring = await dockerKeyring(environment);
    return await lookUpImage({ name, architecture, preferred: architecture, keyring }, { transport, clock });
  } finally {
    await transport.close();
  }
}

/** Credentials in a helper program of Docker are not read. */
async function dockerKeyring({ DOCKER_CONFIG, HOME }: NodeJS.ProcessEnv): Promise<PullKeyring> {
  const path = join(DOCKER_CONFIG ?? join(HOME ?? homedir(), ".docker"), "config.json");
  const text = await readFile(path, "utf8").catch(() => "");
  return parsePullSecret(text) ?? [];
}
