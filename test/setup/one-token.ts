import type { SandboxTokens } from "../../src/gateway/sandbox-tokens.ts";

/** Stands in for the tokens of sandboxes: all of them are this one, and no client has got one with an API key. */
export function oneToken(text: string): SandboxTokens {
  const token = () => Promise.resolve(text);
  return {
    guestTokenOf: token,
    serverTokenOf: token,
    trafficTokenOf: token,
    clientTokensOf: () => Promise.resolve((_, valueId) => `${valueId}.${text}`),
    resumeProofOf: token,
    keys: {
      find: () => Promise.resolve(undefined),
      sentBy: () => Promise.resolve([]),
      signers: () => [],
      isValid: () => false,
      endWhenRevoked: () => () => undefined,
    },
  };
}
