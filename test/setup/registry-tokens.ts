import { createPrivateKey, sign, X509Certificate } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openPki } from "../../src/local/control-plane/pki.ts";
import type { RegistryOptions } from "./registry.ts";

/** A token server and what a registry needs to trust it. */
export interface TokenServer {
  auth: Extract<RegistryOptions["auth"], object>;
  /** `127.0.0.1:<port>`. */
  host: string;
  /** A token for pushes, and for anything else. */
  authorization: (repository: string) => string;
  /** The requests of clients: the scope, and whether they gave the password. */
  asked: { scope: string | null; account: string | undefined }[];
  close(): Promise<void>;
}

/**
 * A stand-in for a token server such as that of Docker Hub or GitHub: it gives everyone a token for `public/…`, and the account
 * `puller` one for all repositories. The tokens are real, and a real registry verifies them. It does not prove what other token
 * servers answer.
 */
export async function startTokenServer(): Promise<TokenServer> {
  const dir = await mkdtemp(join(tmpdir(), "ramet-registry-tokens-"));
  const pki = await openPki(join(dir, "pki"), () => new Date());
  const pair = await pki.issue({ commonName: "tokens", use: "client" });
  const issuer = "tokens.example";
  const service = "registry.example";

  function token(repository: string, actions: string[]): string {
    const x5c = [new X509Certificate(pair.certificate).raw.toString("base64")];
    const now = Math.floor(Date.now() / 1000);
    const header = { typ: "JWT", alg: "ES256", x5c };
    const access = [{ type: "repository", name: repository, actions }];
    const claims = { iss: issuer, sub: "", aud: service, exp: now + 300, nbf: now - 60, iat: now, jti: "1", access };
    const text = [header, claims].map((part) => Buffer.from(JSON.stringify(part)).toString("base64url")).join(".");
    const key = { key: createPrivateKey(pair.key), dsaEncoding: "ieee-p1363" } as const;
    return `${text}.${sign("sha256", Buffer.from(text), key).toString("base64url")}`;
  }

  const asked: TokenServer["asked"] = [];
  const server = createServer((request, response) => {
    const { searchParams } = new URL(request.url ?? "/", "http://tokens");
    const scope = searchParams.get("scope");
    const { authorization } = request.headers;
    const given = authorization && Buffer.from(authorization.replace("Basic ", ""), "base64").toString();
    asked.push({ scope, account: given?.split(":")[0] });
    const repository = scope?.split(":")[1] ?? "";
    if (given !== undefined && given !== "puller:secret") response.writeHead(401).end("{}");
    else if (given === undefined && !repository.startsWith("public/"))
      response.end(JSON.stringify({ token: token(repository, []) }));
    else response.end(JSON.stringify({ token: token(repository, ["pull"]) }));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    auth: { realm: `http://${host}/token`, issuer, service, rootCertificates: pki.caPath },
    host,
    authorization: (repository) => `Bearer ${token(repository, ["pull", "push", "delete"])}`,
    asked,
    close: async () => {
      server.closeAllConnections();
      server.close();
      await rm(dir, { recursive: true, force: true });
    },
  };
}
