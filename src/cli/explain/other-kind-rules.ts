import { parsePodTemplate } from "../../api/schema/pod-template.ts";
import type { SandboxTemplate } from "../../api/kinds/sandbox-template.ts";
import { RametError } from "../../base/errors.ts";
import { completed, type Explanation, generalRemedy } from "./explanation.ts";
import type { IgnoredReport } from "../object/get.ts";
import { lastExpiry, unexpired } from "../../api/keys/api-key-rules.ts";
import type { ApiKey } from "../../api/kinds/api-key.ts";

/** Explains whether sandboxes can be created from a template. Pure: a template has no status. */
export function explainTemplate({ metadata, spec }: SandboxTemplate): Explanation {
  const retry = "Sandboxes are created from it as soon as it is corrected";
  const shared = { since: metadata.creationTimestamp, retry };
  try {
    const image = parsePodTemplate(spec.template).spec.containers[0]?.image ?? "";
    return completed({ state: "healthy", cause: `Its fields are valid; sandboxes run the image ${image}` }, shared);
  } catch (thrown) {
    const { code, message, hint } = RametError.from(thrown);
    return completed({ cause: message, reason: code, action: hint ?? generalRemedy(code) }, shared);
  }
}

/** Adds fields without effect to the explanation of an object without another problem. Pure. */
export function withIgnored(explanation: Explanation, ignored: IgnoredReport | undefined): Explanation {
  if (ignored === undefined || explanation.state !== "healthy") return explanation;
  return {
    ...explanation,
    state: "degraded",
    cause: `${explanation.cause}; but not everything in its manifest applies: ${ignored.message}`,
    reason: ignored.reason,
    since: ignored.since,
    action: remedies[ignored.reason] ?? "Remove these fields, or keep them for other clusters",
  };
}

const remedies: Readonly<Record<string, string>> = {
  TemplateChanged: "Create another sandbox from the changed template, or undo the change",
};

/** Explains whether an API key is accepted. Pure: a key has no status. */
export function explainKey({ metadata, spec }: ApiKey, now: Date): Explanation {
  const { name, namespace, creationTimestamp: since } = metadata;
  if (unexpired(spec.digests, now).length > 0) {
    const cause = `Its requests are authorized as the service account ${spec.serviceAccountName} in namespace ${namespace}`;
    return completed({ state: "healthy", cause, since });
  }
  const action = `Give it a new value with: ramet key rotate ${name} -n ${namespace}`;
  return completed({ cause: "All its values have expired", since: lastExpiry(spec.digests), action });
}
