import { createHash, createPublicKey, type KeyObject } from "node:crypto";
import { errors, jwtVerify } from "jose";
import * as z from "zod";
import type { KeySets } from "../../api/wire/cell-api.ts";
import { type Clock, systemClock } from "../../base/clock.ts";
import { RametError } from "../../base/errors.ts";
import { tokenLifeSeconds } from "../client/cell-token.ts";

const Claims = z.object({
  op: z.string().min(1),
  bdg: z.string().optional(),
  jti: z.string().min(1).max(64),
  iat: z.number(),
  exp: z.number(),
});
type Claims = z.infer<typeof Claims>;

/** How far the clocks of two nodes may differ. */
const skewSeconds = 30;

/** Operations whose tokens can be used again: they change nothing, or open a connection. */
const repeatable: ReadonlySet<string> = new Set(["state", "loaded", "ports"]);

export interface TokenVerifier {
  /** Accepts tokens of these keys and of no others from now on. @throws RametError `InvalidArgument` */
  replaceKeys(keys: KeySets): void;
  /**
   * Resolves if `authorization` holds a valid token for this sandbox and operation. It needs only headers, so that a server
   * reads no body of a stranger.
   * @throws RametError `Unauthorized` or `Forbidden`; `Unavailable` if it was signed with a known key for another time, because
   *   the clock of its sender can be corrected and the operation must not fail for good
   */
  verify(authorization: string | undefined, operation: string): Promise<VerifiedToken>;
}

export interface VerifiedToken {
  /** @throws RametError `Forbidden` if there is a body, and the token is not for this one */
  requireBody(body: Buffer): void;
}

/** Public keys, base64url of their 32 bytes. */
export interface TokenKeys {
  /** The controllers' key, for every operation. */
  publicKey: string;
  /** The gateways' key, for `ports` only. */
  gatewayKey?: string | undefined;
  /** Replaces both. */
  keySets?: KeySets | undefined;
}

const gatewayOperation = "ports";

/** Verifies tokens that were signed with one of these Ed25519 keys. */
export function tokenVerifier(
  { publicKey, gatewayKey, keySets }: TokenKeys,
  sandboxUid: string,
  clock: Clock = systemClock,
): TokenVerifier {
  let { controllers, gateways } = keyObjects(
    keySets ?? { controllers: [publicKey], gateways: gatewayKey === undefined ? [] : [gatewayKey] },
  );
  /** When each used token expires, in seconds since 1970, by its id. Only valid tokens of the controllers get here. */
  const used = new Map<string, number>();
  return {
    replaceKeys: (sets) => {
      ({ controllers, gateways } = keyObjects(sets));
    },
    async verify(authorization, operation) {
      const token = /^Bearer (\S+)$/.exec(authorization ?? "")?.[1];
      if (token === undefined) throw new RametError("Unauthorized", "cell: the request has no bearer token");
      const { op, bdg, jti, exp, ofGateway } = await claims(token);
      if (op !== "*" && op !== operation)
        throw new RametError("Forbidden", `cell: the token is for ${op}, not for ${operation}`);
      if (ofGateway && operation !== gatewayOperation)
        throw new RametError("Forbidden", `cell: a gateway key can only open ports, not ${operation}`);
      if (!repeatable.has(operation)) useOnce(jti, exp);
      return {
        requireBody: (body) => {
          if (body.length > 0 && bdg !== createHash("sha256").update(body).digest("base64url"))
            throw new RametError("Forbidden", "cell: the token is for another request body");
        },
      };
    },
  };

  function useOnce(jti: string, exp: number): void {
    const nowSeconds = clock.now().getTime() / 1000;
    for (const [id, expiry] of used) if (expiry + skewSeconds < nowSeconds) used.delete(id);
    if (used.has(jti)) throw new RametError("Forbidden", "cell: the token was used before");
    used.set(jti, exp);
  }

  async function claims(token: string): Promise<Claims & { ofGateway: boolean }> {
    let ofGateway = false;
    try {
      const { payload } = await jwtVerify(
        token,
        // The header names the signing key.
        ({ kid = "" }) => {
          const key = controllers.get(kid) ?? gateways.get(kid);
          if (key === undefined) throw new Error("it was signed with an unknown key");
          ofGateway = !controllers.has(kid);
          return key;
        },
        {
          audience: sandboxUid,
          algorithms: ["EdDSA"],
          requiredClaims: ["exp", "iat", "jti"],
          maxTokenAge: tokenLifeSeconds,
          clockTolerance: skewSeconds,
          currentDate: clock.now(),
        },
      );
      const found = Claims.parse(payload);
      if (found.exp - found.iat > tokenLifeSeconds) throw new Error(`it is valid for more than ${tokenLifeSeconds} s`);
      return { ...found, ofGateway };
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      if (!isOfAnotherTime(error))
        throw new RametError("Unauthorized", `cell: invalid token: ${why}`, { cause: error });
      throw new RametError("Unavailable", `cell: the token is not valid at this time: ${why}`, {
        cause: error,
        retryable: true,
        hint: `Synchronize the clocks of the nodes: they may differ by ${skewSeconds} s`,
      });
    }
  }
}

/** jose checks the times after the signature. */
function isOfAnotherTime(error: unknown): boolean {
  if (error instanceof errors.JWTExpired) return true;
  return error instanceof errors.JWTClaimValidationFailed && error.claim === "iat" && error.reason === "check_failed";
}

function keyObjects({ controllers, gateways }: KeySets): Record<keyof KeySets, ReadonlyMap<string, KeyObject>> {
  const map = (keys: readonly string[]) => new Map(keys.map((key) => [key, keyObject(key)]));
  return { controllers: map(controllers), gateways: map(gateways) };
}

function keyObject(publicKey: string): KeyObject {
  return createPublicKey({ key: { kty: "OKP", crv: "Ed25519", x: publicKey }, format: "jwk" });
}
