import {
  type ClientTokenUse,
  clientAccessToken,
  guestAccessToken,
  serverAccessToken,
  trafficAccessToken,
} from "../cell/client/cell-token.ts";
import { resumeProof } from "../cell/client/resume-proof.ts";
import type { KubeClient } from "../kube/kube-client.ts";
import { guestSecretReader } from "../kube/system-reader.ts";
import type { ClientKeys } from "./client-keys.ts";

/** The access tokens of sandboxes. All methods throw RametError `Unavailable` if the gateway cannot read the guests' secret. */
export interface SandboxTokens {
  /** Of the guest, which the gateway sends. */
  guestTokenOf(sandboxUid: string): Promise<string>;
  /** Of the client API, for the guest and the code interpreter. */
  serverTokenOf(sandboxUid: string): Promise<string>;
  /** Of the client API, for ports that are not public. */
  trafficTokenOf(sandboxUid: string): Promise<string>;
  /** Of the clients with the values of API keys. */
  clientTokensOf(sandboxUid: string): Promise<(use: ClientTokenUse, valueId: string) => string>;
  /** Proves to the client API that this gateway asks it to resume the sandbox. */
  resumeProofOf(sandboxUid: string): Promise<string>;
  keys: Pick<ClientKeys, "find" | "sentBy" | "signers" | "isValid" | "endWhenRevoked">;
}

/**
 * Derives the tokens of sandboxes from the secret of the guests, which it reads when a client needs a token: a gateway whose
 * clients never use one needs no right to read it, and a rotated secret is noticed.
 */
export function derivedTokens(client: KubeClient, keys: ClientKeys): SandboxTokens {
  const secret = guestSecretReader(client, "the gateway");
  return {
    guestTokenOf: async (sandboxUid) => guestAccessToken(await secret(), sandboxUid),
    serverTokenOf: async (sandboxUid) => serverAccessToken(await secret(), sandboxUid),
    trafficTokenOf: async (sandboxUid) => trafficAccessToken(await secret(), sandboxUid),
    clientTokensOf: async (sandboxUid) => {
      const current = await secret();
      return (use, valueId) => clientAccessToken(current, { use, sandboxUid, valueId });
    },
    resumeProofOf: async (sandboxUid) => resumeProof(await secret(), sandboxUid, client.clock),
    keys,
  };
}
