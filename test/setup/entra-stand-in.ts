import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import type { RequestListener } from "node:http";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import type { KeyPair } from "../../src/local/control-plane/certificate.ts";

/** A stand-in for Entra ID, and a service account that it trusts. Tests the requests, but not Entra ID's trust decisions. */
export interface EntraStandIn {
  /** The environment that the webhook of AKS workload identity sets in a Pod. */
  environment: Record<
    "AZURE_CLIENT_ID" | "AZURE_TENANT_ID" | "AZURE_AUTHORITY_HOST" | "AZURE_FEDERATED_TOKEN_FILE",
    string
  >;
  /** The number of issued tokens. */
  readonly issued: number;
  stop(): Promise<void>;
}

/** Starts a server that exchanges the service account's token for one of Azure Storage. */
export async function startEntraStandIn(tls: KeyPair): Promise<EntraStandIn> {
  const [client, tenant, serviceAccountToken] = [randomUUID(), randomUUID(), "a-service-account-token"];
  const directory = await mkdtemp(join(tmpdir(), "ramet-entra-"));
  const tokenFile = join(directory, "token");
  await writeFile(tokenFile, serviceAccountToken);
  let issued = 0;
  const answer: RequestListener = (request, response) => {
    const { origin, pathname } = new URL(request.url ?? "/", `https://${request.headers.host ?? ""}`);
    const place = `${origin}/${tenant}`;
    const respond = (status: number, body: object): void => {
      response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
    };
    if (pathname === `/${tenant}/v2.0/.well-known/openid-configuration`) {
      const issuer = `${place}/v2.0`;
      respond(200, {
        issuer,
        token_endpoint: `${place}/token`,
        authorization_endpoint: `${place}/authorize`,
        jwks_uri: `${place}/keys`,
      });
      return;
    }
    if (pathname !== `/${tenant}/token`) {
      respond(404, { error: "not_found" });
      return;
    }
    void text(request).then((form) => {
      const asked = new URLSearchParams(form);
      const isKnown = asked.get("client_id") === client && asked.get("client_assertion") === serviceAccountToken;
      if (!isKnown || asked.get("scope")?.startsWith("https://storage.azure.com/.default") !== true) {
        respond(401, {
          error: "invalid_client",
          error_description: "AADSTS700213: No matching federated identity record found",
        });
        return;
      }
      issued += 1;
      respond(200, { token_type: "Bearer", expires_in: 3_600, access_token: storageToken({ client, tenant }) });
    });
  };
  const server = createServer({ cert: tls.certificate, key: tls.key }, answer).listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    environment: {
      AZURE_CLIENT_ID: client,
      AZURE_TENANT_ID: tenant,
      AZURE_AUTHORITY_HOST: `https://127.0.0.1:${(server.address() as AddressInfo).port}/`,
      AZURE_FEDERATED_TOKEN_FILE: tokenFile,
    },
    get issued() {
      return issued;
    },
    stop: async () => {
      server.closeAllConnections();
      server.close();
      await rm(directory, { recursive: true });
    },
  };
}

/** A JSON Web Token with the claims that Azurite checks, and an invalid signature. */
function storageToken({ client, tenant }: { client: string; tenant: string }): string {
  const now = Math.floor(Date.now() / 1000);
  const [iss, aud] = [`https://sts.windows.net/${tenant}/`, "https://storage.azure.com"];
  const claims = { iss, aud, iat: now, nbf: now, exp: now + 3_600, oid: client, tid: tenant };
  const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString("base64url");
  return `${part({ alg: "RS256", typ: "JWT" })}.${part(claims)}.c2lnbmF0dXJl`;
}
