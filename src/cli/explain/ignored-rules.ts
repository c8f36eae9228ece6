import type { IgnoredReport } from "../object/ignored-fields.ts";
import type { Explanation } from "./explanation.ts";

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
