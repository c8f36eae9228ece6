import type { Sandbox } from "../../../api/kinds/sandbox.ts";
import { annotations } from "../../../api/names/labels.ts";
import type { Caller } from "../../keys/callers.ts";
import type { E2b } from "./call.ts";
import { clientCredentials, usesSecrets } from "./credentials.ts";
import { needs } from "../../keys/needs.ts";
import { egressAnnotations, noEgress } from "./network.ts";
import { clientNetworkAnnotation } from "./network-view.ts";
import { type NewSandbox, Tokens } from "./schemas.ts";

interface Request extends Pick<NewSandbox, "network" | "allow_internet_access"> {
  tokens: Tokens;
}

/**
 * The annotations that request the network of a client: egress rules, and credentials that only the controllers can read.
 * @throws RametError `InvalidArgument`; `NotSupported`; `Forbidden` if a rule uses secrets, and the key may not read them
 */
export async function requestedNetwork(
  { secrets, callers }: Pick<E2b, "secrets" | "callers">,
  caller: Caller,
  { tokens, ...request }: Request,
): Promise<Record<string, string>> {
  const credentials = clientCredentials(request.network ?? {}, { account: caller.serviceAccount, tokens });
  if (credentials !== undefined && usesSecrets(credentials)) await callers.require(caller, ...needs.readSecret);
  return {
    ...egressAnnotations(request),
    ...clientNetworkAnnotation(request),
    ...(Object.keys(tokens).length > 0 && { [annotations.clientTokens]: JSON.stringify(tokens) }),
    ...(credentials && { [annotations.sealedCredentials]: await secrets.seal(caller.namespace, credentials) }),
  };
}

/** Removes what a client has requested, but its tokens, which an update of the network cannot contain. */
export const noNetwork = { ...noEgress, [annotations.sealedCredentials]: null };

/** The tokens that a client has registered for its sandbox. */
export function clientTokens({ metadata }: Sandbox): Tokens {
  const text = metadata.annotations?.[annotations.clientTokens];
  try {
    return Tokens.parse(JSON.parse(text ?? "{}"));
  } catch {
    // Somebody has changed the annotation.
    return {};
  }
}
