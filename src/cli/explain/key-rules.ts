import { lastExpiry, unexpired } from "../../api/keys/api-key-rules.ts";
import type { ApiKey } from "../../api/kinds/api-key.ts";
import { type Explanation, nothingToDo } from "./explanation.ts";

/** Explains whether an API key is accepted. Pure: a key has no status. */
export function explainKey({ metadata, spec }: ApiKey, now: Date): Explanation {
  const { name, namespace, creationTimestamp } = metadata;
  if (unexpired(spec.digests, now).length > 0) {
    return {
      state: "healthy",
      cause: `Its requests are authorized as the service account ${spec.serviceAccountName} in namespace ${namespace}`,
      since: creationTimestamp,
      retry: "None is needed",
      action: nothingToDo,
    };
  }
  return {
    state: "stuck",
    cause: "All its values have expired",
    since: lastExpiry(spec.digests),
    retry: "None",
    action: `Give it a new value with: ramet key rotate ${name} -n ${namespace}`,
  };
}
