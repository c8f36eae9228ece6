import { createHash, timingSafeEqual } from "node:crypto";
import * as z from "zod";
import { guestKeySecret, guestSecretEntry, systemNamespace } from "../api/names/system-names.ts";
import { RametError } from "../base/errors.ts";
import { within } from "../base/within.ts";
import { guestAccessToken, trafficAccessToken } from "../cell/client/cell-token.ts";
import { resumeProof } from "../cell/client/resume-proof.ts";
import type { KubeClient } from "../kube/kube-client.ts";
import { ObjectMeta } from "../kube/object.ts";
import { coreResources } from "../kube/resource-ref.ts";
import { StaleOnErrorCache } from "../base/stale-on-error-cache.ts";

/** The access tokens of sandboxes. All methods throw RametError `Unavailable` if the gateway cannot read the guests' secret. */
export interface SandboxTokens {
  guestTokenOf(sandboxUid: string): Promise<string>;
  /** The token for ports that are not public. */
  trafficTokenOf(sandboxUid: string): Promise<string>;
  /** Proves to the client API that this gateway asks it to resume the sandbox. */
  resumeProofOf(sandboxUid: string): Promise<string>;
}

/** How long a changed secret can remain unnoticed. */
const freshMilliseconds = 10_000;
/** The same while the API server does not respond, as for decisions about access. */
const staleMilliseconds = 300_000;

/**
 * Derives the tokens of sandboxes from the secret of the guests, which it reads when a client needs a token: a gateway whose
 * clients never use one needs no right to read it, and a rotated secret is noticed.
 */
export function sandboxTokens(client: KubeClient): SandboxTokens {
  const secrets = client.resource(coreResources.secrets, (value) => GuestKeySecret.parse(value));
  const at = { namespace: systemNamespace, name: guestKeySecret };
  const cache = new StaleOnErrorCache<Buffer>({
    clock: client.clock,
    freshMilliseconds,
    staleMilliseconds,
    isRefusal: () => false,
  });
  const read = async (): Promise<Buffer> => {
    const deadline = { clock: client.clock, milliseconds: limitMilliseconds, what: "Reading the Secret" };
    try {
      const { data } = await within(deadline, (signal) => secrets.get(at, { signal }));
      return Buffer.from(data[guestSecretEntry], "base64");
    } catch (cause) {
      const { code, retryable } = RametError.from(cause);
      // The client must not see the API server's errors about the gateway's own rights.
      throw new RametError("Unavailable", "The gateway cannot read the secret from which guest tokens are derived", {
        retryable: retryable || code === "Timeout" || code === "NotFound",
        hint: `Check that the controllers are of this version and have created the Secret ${guestKeySecret} in ${systemNamespace}, and that the gateway may get it`,
        cause,
      });
    }
  };
  return {
    guestTokenOf: async (sandboxUid) => guestAccessToken(await cache.get("", read), sandboxUid),
    trafficTokenOf: async (sandboxUid) => trafficAccessToken(await cache.get("", read), sandboxUid),
    resumeProofOf: async (sandboxUid) => resumeProof(await cache.get("", read), sandboxUid, client.clock),
  };
}

const limitMilliseconds = 3_000;

const GuestKeySecret = z.looseObject({
  metadata: ObjectMeta,
  data: z.looseObject({ [guestSecretEntry]: z.string().min(1) }),
});

/** Compares secrets in a time that reveals nothing about them, not even the length. */
export function equalSecrets(one: string, other: string): boolean {
  const [first, second] = [one, other].map((text) => createHash("sha256").update(text).digest()) as [Buffer, Buffer];
  return timingSafeEqual(first, second);
}
