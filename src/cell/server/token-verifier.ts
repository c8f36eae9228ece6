import { createPublicKey, type KeyObject } from "node:crypto";
import { jwtVerify } from "jose";
import * as z from "zod";
import { RametError } from "../../base/errors.ts";

const Claims = z.object({ op: z.string().min(1), bdg: z.string().optional(), exp: z.number() });

export interface TokenVerifier {
  /**
   * Passes if `authorization` carries a token of the controller for this sandbox and operation and, where there is a body,
   * for this very body.
   * @throws RametError `Unauthorized` or `Forbidden`
   */
  verify(authorization: string | undefined, operation: string, bodyDigest?: string): Promise<void>;
}

/** Public keys, base64url of their 32 bytes. */
export interface TokenKeys {
  /** Of the controllers, for every operation. */
  publicKey: string;
  /** Of the gateways, for `ports` alone. */
  gatewayKey?: string | undefined;
}

const operationOfGateways = "ports";

/** Checks tokens that were signed with one of these Ed25519 keys. */
export function tokenVerifier({ publicKey, gatewayKey }: TokenKeys, sandboxUid: string): TokenVerifier {
  const controllers = keyObject(publicKey);
  const gateways = gatewayKey === undefined ? undefined : keyObject(gatewayKey);
  return {
    async verify(authorization, operation, bodyDigest) {
      const token = /^Bearer (\S+)$/.exec(authorization ?? "")?.[1];
      if (token === undefined) throw new RametError("Unauthorized", "cell: the call carries no bearer token");
      const { op, bdg, ofGateway } = await claims(token);
      if (op !== "*" && op !== operation)
        throw new RametError("Forbidden", `cell: the token is for ${op}, not for ${operation}`);
      if (ofGateway && operation !== operationOfGateways)
        throw new RametError("Forbidden", `cell: a gateway may open ports, and asks for ${operation}`);
      if (bodyDigest !== undefined && bdg !== bodyDigest)
        throw new RametError("Forbidden", "cell: the token is for another body");
    },
  };

  async function claims(token: string): Promise<z.infer<typeof Claims> & { ofGateway: boolean }> {
    // Who has signed it stands in its header; without a word it was a controller.
    let key = controllers;
    try {
      const { payload } = await jwtVerify(
        token,
        ({ kid }) => {
          if (gateways !== undefined && kid === gatewayKey) key = gateways;
          return key;
        },
        { audience: sandboxUid, algorithms: ["EdDSA"], requiredClaims: ["exp"] },
      );
      return { ...Claims.parse(payload), ofGateway: key === gateways };
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      throw new RametError("Unauthorized", `cell: the token is not valid: ${why}`, { cause: error });
    }
  }
}

function keyObject(publicKey: string): KeyObject {
  return createPublicKey({ key: { kty: "OKP", crv: "Ed25519", x: publicKey }, format: "jwk" });
}
