import { parsePodTemplate } from "../../api/schema/pod-template.ts";
import type { SandboxTemplate } from "../../api/kinds/sandbox-template.ts";
import { RametError } from "../../base/errors.ts";
import { type Explanation, generalRemedy, nothingToDo } from "./explanation.ts";

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
