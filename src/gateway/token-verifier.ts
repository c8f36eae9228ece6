import { createLocalJWKSet, decodeJwt, errors, jwtVerify } from "jose";
import * as z from "zod";
import { gatewayAudience } from "../api/names/system-names.ts";
import { RametError, resultOr } from "../base/errors.ts";
import { within } from "../base/within.ts";
import type { KubeClient } from "../kube/kube-client.ts";

/** Verifies tokens without a request to the API server, so that strangers cannot cause requests. */
export interface TokenVerifier {
  /** @throws RametError `Unauthorized`; `Unavailable` if the token's key is unknown and the API server does not respond */
  verify(token: string): Promise<void>;
}

/**
 * Verifies tokens of service accounts for gateways with the public keys of the API server. Whether the account and the bound
 * Pod still exist, only a TokenReview can tell.
 * @throws RametError `Forbidden`, `NotFound` or another code if the keys cannot be read
 */
export async function serviceAccountTokens(client: KubeClient, signal: AbortSignal): Promise<TokenVerifier> {
  const { clock } = client;
  const keys = new PublishedKeys(client);
  await keys.fetch(signal);
  return {
    async verify(token) {
      const now = clock.now().getTime() / 1000;
      // The cheap checks first: a signature costs a hundred times as much.
      const { aud, iss = "", exp = 0 } = claimsOf(token);
      if (![aud].flat().includes(gatewayAudience)) throw refused(`it is not for the audience ${gatewayAudience}`);
      if (iss === "" || exp <= now) throw refused(iss === "" ? "it has no issuer" : "it has expired");
      for (let isSecond = false; ; isSecond = true) {
        try {
          // The tolerance is for tokens that an API server with another clock has just issued.
          const options = { algorithms, audience: gatewayAudience, currentDate: clock.now(), clockTolerance: 60 };
          await jwtVerify(token, keys.current, options);
          return;
        } catch (error) {
          const isUnknown = error instanceof errors.JWKSNoMatchingKey;
          if (!isUnknown || isSecond || !keys.mayFetch()) throw refused(RametError.from(error).message);
          await keys.fetch().catch((cause: unknown) => {
            // The client must not see the API server's errors about the gateway's own rights.
            throw new RametError("Unavailable", "The gateway cannot read the keys of tokens", {
              retryable: true,
              cause,
            });
          });
        }
      }
    },
  };
}

/** Those of Kubernetes, and EdDSA. */
const algorithms = ["RS256", "ES256", "ES384", "ES512", "EdDSA"];

/** The public keys of the API server, which change when an administrator rotates them. */
class PublishedKeys {
  current: ReturnType<typeof createLocalJWKSet> = createLocalJWKSet({ keys: [] });
  readonly #client: KubeClient;
  #fetching: Promise<void> | undefined;
  #fetchedAt = -Infinity;

  constructor(client: KubeClient) {
    this.#client = client;
  }

  /** Tokens with made-up key ids must not become requests. */
  mayFetch(): boolean {
    const now = this.#client.clock.monotonicMilliseconds();
    return this.#fetching !== undefined || now - this.#fetchedAt >= pauseMilliseconds;
  }

  /** Concurrent calls share one request. */
  fetch(signal?: AbortSignal): Promise<void> {
    this.#fetching ??= this.#fetch(signal).finally(() => {
      this.#fetching = undefined;
    });
    return this.#fetching;
  }

  async #fetch(signal?: AbortSignal): Promise<void> {
    const client = this.#client;
    const { clock } = client;
    this.#fetchedAt = clock.monotonicMilliseconds();
    const deadline = {
      clock,
      milliseconds: limitMilliseconds,
      what: "The API server's answer",
      retryable: true,
      signal,
    };
    try {
      const { keys } = KeySet.parse(await within(deadline, (limit) => client.getPath(path, limit)));
      this.current = createLocalJWKSet({ keys });
    } catch (cause) {
      const { code, message, retryable } = RametError.from(cause);
      throw new RametError(code, `Cannot read the public keys of service account tokens: ${message}`, {
        hint: "Bind the ClusterRole system:service-account-issuer-discovery to the gateway, or start it with --accept-tokens-by-review-only",
        cause,
        retryable,
      });
    }
  }
}

const path = "/openid/v1/jwks";
const limitMilliseconds = 3_000;
const pauseMilliseconds = 5_000;

const KeySet = z.object({ keys: z.array(z.looseObject({ kty: z.string() })) });

function claimsOf(token: string): z.infer<typeof Claims> {
  if (token.length > longestToken) throw refused("it is too long");
  try {
    return Claims.parse(decodeJwt(token));
  } catch {
    throw refused("it is not a JSON Web Token");
  }
}

/** Tokens of service accounts have about 1,000 characters. */
const longestToken = 8_192;

const Claims = z.object({
  aud: z.union([z.string(), z.array(z.string())]).default([]),
  iss: z.string().optional(),
  exp: z.number().optional(),
});

function refused(why: string): RametError {
  return new RametError("Unauthorized", `The token is not that of a service account for gateways: ${why}`, {
    hint: tokenHint,
  });
}

export const tokenHint = `Send a token in the header Ramet-Access-Token; create one with \`kubectl create token <service account> --audience ${gatewayAudience}\``;

/** When a token expires, in milliseconds since 1970. Never, if it is not a JSON Web Token or does not say. */
export function expiryOf(token: string): number {
  return resultOr(() => (Claims.parse(decodeJwt(token)).exp ?? Infinity) * 1000, Infinity);
}
