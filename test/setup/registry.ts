import { createHash } from "node:crypto";
import { mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { stringify } from "yaml";
import { acquireRegistry } from "./acquire-registry.ts";
import { freePort } from "./free-port.ts";
import { type RestartableServer, startLoopbackServer, startRestartable } from "./loopback-server.ts";

/** The fields of an image's configuration, as in a Dockerfile. */
export interface TestImage {
  Entrypoint?: string[];
  Cmd?: string[];
  Env?: string[];
  WorkingDir?: string;
  User?: string;
}

export interface TestRegistry extends RestartableServer {
  /** `127.0.0.1:<port>`, as in image names. It serves HTTP. */
  host: string;
  /** Pushes an image without files, under a tag. Returns its manifest's digest. */
  push(repository: string, tag: string, image: TestImage, platform?: { architecture?: string }): Promise<string>;
  /** Pushes an index of manifests that were pushed before. Returns its digest. */
  pushIndex(repository: string, tag: string, manifests: { digest: string; architecture: string }[]): Promise<string>;
  remove(repository: string, digest: string): Promise<void>;
}

/** The account of a registry with `auth: "basic"`. */
export const account = { username: "puller", password: "secret" } as const;

/** The line of a password file, with bcrypt of the account's password. */
export const passwordLine = `${account.username}:$2b$04$V96NTp4i/YrpqHqYkoqM.uRZJ5JsHfKpNyDI8uq78OnjRYh6hH1x2\n`;

export interface RegistryOptions {
  /** `basic`: the registry asks for {@link account} itself; a realm: it asks for a token of that server. @default anyone may read */
  auth?: "basic" | { realm: string; issuer: string; service: string; rootCertificates: string };
  /** The `Authorization` header for pushes. */
  authorization?: () => string;
}

const mediaTypes = {
  index: "application/vnd.oci.image.index.v1+json",
  manifest: "application/vnd.oci.image.manifest.v1+json",
  config: "application/vnd.oci.image.config.v1+json",
  layer: "application/vnd.oci.image.layer.v1.tar+gzip",
} as const;

/** Starts a real registry: that of the distribution project. */
export async function startRegistry({ auth, authorization }: RegistryOptions = {}): Promise<TestRegistry> {
  const program = await acquireRegistry();
  const dir = await mkdtemp(join(tmpdir(), "ramet-registry-"));
  const port = await freePort();
  const host = `127.0.0.1:${port}`;
  await writeFile(join(dir, "config.yml"), stringify(setting(dir, host, auth)));
  await writeFile(join(dir, "htpasswd"), passwordLine);
  const args = ["serve", join(dir, "config.yml")];
  const start = () => startLoopbackServer({ what: "the registry", program, dir, port, args });
  const server = await startRestartable(dir, start);
  const header = authorization ?? ((): string => (auth === "basic" ? basic() : ""));

  async function send(method: string, path: string, body?: Buffer, type?: string): Promise<Response> {
    const headers = {
      accept: `${mediaTypes.manifest}, ${mediaTypes.index}`,
      ...(header() !== "" && { authorization: header() }),
      ...(type !== undefined && { "content-type": type }),
    };
    const url = new URL(path, `http://${host}`);
    const answer = await fetch(url, { method, headers, ...(body && { body: new Uint8Array(body) }) });
    if (!answer.ok) throw new Error(`${method} ${url.href}: ${answer.status} ${await answer.text()}`);
    return answer;
  }

  async function blob(repository: string, content: Buffer): Promise<{ digest: string; size: number }> {
    const begun = await send("POST", `/v2/${repository}/blobs/uploads/`);
    const digest = digestOf(content);
    const upload = new URL(begun.headers.get("location") ?? "", `http://${host}`);
    upload.searchParams.set("digest", digest);
    await send("PUT", upload.href, content, "application/octet-stream");
    return { digest, size: content.length };
  }

  async function manifest(repository: string, reference: string, content: object, type: string): Promise<string> {
    const bytes = Buffer.from(JSON.stringify(content));
    await send("PUT", `/v2/${repository}/manifests/${reference}`, bytes, type);
    return digestOf(bytes);
  }

  return {
    host,
    async push(repository, tag, image, { architecture = ownArchitecture } = {}) {
      // Two blocks of zeros: the end of an archive without files.
      const tar = Buffer.alloc(1024);
      const layer = await blob(repository, gzipSync(tar));
      const rootfs = { type: "layers", diff_ids: [digestOf(tar)] };
      const content = Buffer.from(JSON.stringify({ architecture, os: "linux", config: image, rootfs, history: [] }));
      const config = await blob(repository, content);
      return manifest(
        repository,
        tag,
        {
          schemaVersion: 2,
          mediaType: mediaTypes.manifest,
          config: { mediaType: mediaTypes.config, ...config },
          layers: [{ mediaType: mediaTypes.layer, ...layer }],
        },
        mediaTypes.manifest,
      );
    },
    async pushIndex(repository, tag, manifests) {
      const described = await Promise.all(
        manifests.map(async ({ digest, architecture }) => {
          const answer = await send("GET", `/v2/${repository}/manifests/${digest}`);
          const size = (await answer.arrayBuffer()).byteLength;
          return { mediaType: mediaTypes.manifest, digest, size, platform: { architecture, os: "linux" } };
        }),
      );
      const content = { schemaVersion: 2, mediaType: mediaTypes.index, manifests: described };
      return manifest(repository, tag, content, mediaTypes.index);
    },
    remove: async (repository, digest) => {
      await send("DELETE", `/v2/${repository}/manifests/${digest}`);
    },
    ...server,
  };
}

/** As in Go. */
export const ownArchitecture = process.arch === "x64" ? "amd64" : process.arch;

function setting(dir: string, host: string, auth: RegistryOptions["auth"]): object {
  const token = typeof auth === "object" && {
    auth: {
      token: {
        realm: auth.realm,
        issuer: auth.issuer,
        service: auth.service,
        rootcertbundle: auth.rootCertificates,
      },
    },
  };
  return {
    version: 0.1,
    log: { level: "error", accesslog: { disabled: true } },
    storage: { filesystem: { rootdirectory: join(dir, "data") }, delete: { enabled: true } },
    http: { addr: host },
    ...(auth === "basic" && { auth: { htpasswd: { realm: "test", path: join(dir, "htpasswd") } } }),
    ...token,
  };
}

function basic(): string {
  return `Basic ${Buffer.from(`${account.username}:${account.password}`).toString("base64")}`;
}

function digestOf(content: Buffer): string {
  return `sha256:${createHash("sha256").update(content).digest("hex")}`;
}
