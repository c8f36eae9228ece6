import { parsePodTemplate } from "../../api/schema/pod-template.ts";
import type { SandboxTemplate } from "../../api/kinds/sandbox-template.ts";
import { RametError } from "../../base/errors.ts";
import { type Explanation, generalRemedy, nothingToDo } from "./explanation.ts";
import type { IgnoredReport } from "../object/ignored-fields.ts";
import { lastExpiry, unexpired } from "../../api/keys/api-key-rules.ts";
import type { ApiKey } from "../../api/kinds/api-key.ts";

/** Explains whether sandboxes can be created from a template. Pure: a template has no status. */
export function explainTemplate({ metadata, spec }: SandboxTemplate): Explanation {
  const since = metadata.creationTimestamp;
  try {
    const image = parsePodTemplate(spec.template).spec.containers[0]?.image ?? "";
    return {
      state: "healthy",
      cause: `Its fields are valid; sandboxes run the image ${image}`,
      since,
      retry: "None is needed",
      action: nothingToDo,
    };
  } catch (thrown) {
    const { code, message, hint } = RametError.from(thrown);
    return {
      state: "stuck",
      cause: message,
      reason: code,
      since,
      retry: "Sandboxes are created from it as soon as it is corrected",
      action: hint ?? generalRemedy(code),
    };
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
