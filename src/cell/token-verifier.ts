import { createPublicKey } from "node:crypto";
import { jwtVerify } from "jose";
import { z } from "zod";
import { RametError } from "../api/errors.ts";

const Claims = z.object({ op: z.string().min(1), bdg: z.string().optional(), exp: z.number() });

export interface TokenVerifier {
  /**
   * Passes if `authorization` carries a token of the controller for this sandbox and operation and, where there is a body,
   * for this very body.
   * @throws RametError `Unauthorized` or `Forbidden`
   */
  verify(authorization: string | undefined, operation: string, bodyDigest?: string): Promise<void>;
}

/** Checks tokens against the controller's Ed25519 public key (base64url of its 32 bytes). */
export function tokenVerifier(publicKey: string, sandboxUid: string): TokenVerifier {
  const key = createPublicKey({ key: { kty: "OKP", crv: "Ed25519", x: publicKey }, format: "jwk" });
  return {
    async verify(authorization, operation, bodyDigest) {
      const token = /^Bearer (\S+)$/.exec(authorization ?? "")?.[1];
      if (token === undefined) throw new RametError("Unauthorized", "cell: the call carries no bearer token");
      const { op, bdg } = await claims(token);
      if (op !== "*" && op !== operation)
        throw new RametError("Forbidden", `cell: the token is for ${op}, not for ${operation}`);
      if (bodyDigest !== undefined && bdg !== bodyDigest)
        throw new RametError("Forbidden", "cell: the token is for another body");
    },
  };

  async function claims(token: string): Promise<z.infer<typeof Claims>> {
    try {
      const { payload } = await jwtVerify(token, key, {
        audience: sandboxUid,
        algorithms: ["EdDSA"],
        requiredClaims: ["exp"],
      });
      return Claims.parse(payload);
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      throw new RametError("Unauthorized", `cell: the token is not valid: ${why}`, { cause: error });
    }
  }
}
