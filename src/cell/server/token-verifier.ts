import { createHash, createPublicKey, type KeyObject } from "node:crypto";
import { jwtVerify } from "jose";
import * as z from "zod";
import { type Clock, systemClock } from "../../base/clock.ts";
import { RametError } from "../../base/errors.ts";

const Claims = z.object({ op: z.string().min(1), bdg: z.string().optional(), exp: z.number() });

export interface TokenVerifier {
  /**
   * Resolves if `authorization` holds a valid token for this sandbox and operation. It needs only headers, so that a server
   * reads no body of a stranger.
   * @throws RametError `Unauthorized` or `Forbidden`
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
}

const gatewayOperation = "ports";

/** Verifies tokens that were signed with one of these Ed25519 keys. */
export function tokenVerifier(
  { publicKey, gatewayKey }: TokenKeys,
  sandboxUid: string,
  clock: Clock = systemClock,
): TokenVerifier {
  const controllers = keyObject(publicKey);
  const gateways = gatewayKey === undefined ? undefined : keyObject(gatewayKey);
  return {
    async verify(authorization, operation) {
      const token = /^Bearer (\S+)$/.exec(authorization ?? "")?.[1];
      if (token === undefined) throw new RametError("Unauthorized", "cell: the request has no bearer token");
      const { op, bdg, ofGateway } = await claims(token);
      if (op !== "*" && op !== operation)
        throw new RametError("Forbidden", `cell: the token is for ${op}, not for ${operation}`);
      if (ofGateway && operation !== gatewayOperation)
        throw new RametError("Forbidden", `cell: a gateway key can only open ports, not ${operation}`);
      return {
        requireBody: (body) => {
          if (body.length > 0 && bdg !== createHash("sha256").update(body).digest("base64url"))
            throw new RametError("Forbidden", "cell: the token is for another request body");
        },
      };
    },
  };

  async function claims(token: string): Promise<z.infer<typeof Claims> & { ofGateway: boolean }> {
    // The header names the signing key. Without a name it is the controllers' key.
    let key = controllers;
    try {
      const { payload } = await jwtVerify(
        token,
        ({ kid }) => {
          if (gateways !== undefined && kid === gatewayKey) key = gateways;
          return key;
        },
        { audience: sandboxUid, algorithms: ["EdDSA"], requiredClaims: ["exp"], currentDate: clock.now() },
      );
      return { ...Claims.parse(payload), ofGateway: key === gateways };
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      throw new RametError("Unauthorized", `cell: invalid token: ${why}`, { cause: error });
    }
  }
}

function keyObject(publicKey: string): KeyObject {
  return createPublicKey({ key: { kty: "OKP", crv: "Ed25519", x: publicKey }, format: "jwk" });
}
