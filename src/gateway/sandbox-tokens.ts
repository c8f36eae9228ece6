import { guestAccessToken, trafficAccessToken } from "../cell/client/cell-token.ts";
import { resumeProof } from "../cell/client/resume-proof.ts";
import type { KubeClient } from "../kube/kube-client.ts";
import { guestSecretReader } from "../kube/system-reader.ts";

/** The access tokens of sandboxes. All methods throw RametError `Unavailable` if the gateway cannot read the guests' secret. */
export type SandboxTokens = ReturnType<typeof sandboxTokens>;

/**
 * Derives the tokens of sandboxes from the secret of the guests, which it reads when a client needs a token: a gateway whose
 * clients never use one needs no right to read it, and a rotated secret is noticed.
 */
export function sandboxTokens(client: KubeClient) {
  const secret = guestSecretReader(client, "the gateway");
  return {
    guestTokenOf: async (sandboxUid: string) => guestAccessToken(await secret(), sandboxUid),
    /** The token for ports that are not public. */
    trafficTokenOf: async (sandboxUid: string) => trafficAccessToken(await secret(), sandboxUid),
    /** Proves to the client API that this gateway asks it to resume the sandbox. */
    resumeProofOf: async (sandboxUid: string) => resumeProof(await secret(), sandboxUid, client.clock),
  };
}
