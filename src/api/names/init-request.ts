import { createHash } from "node:crypto";
import * as z from "zod";
import { RametError } from "../../base/errors.ts";
import { annotations } from "./labels.ts";

/** The part of `agents.kruise.io/init-runtime-request` that Ramet reads, in the format of OpenKruise Agents. */
const InitRuntimeRequest = z.looseObject({ envVars: z.record(z.string(), z.string()).nullish() });

interface MaybeRequested {
  metadata: { annotations?: Record<string, string> | undefined };
}

/** The annotation value that requests these variables. */
export function initRuntimeRequest(envVars: Record<string, string>): string {
  return JSON.stringify({ envVars });
}

/**
 * The variables that the annotation requests in addition to those of the template.
 * @throws RametError `InvalidArgument` when the annotation is invalid
 */
export function requestedEnvironment({ metadata }: MaybeRequested): Record<string, string> {
  const text = metadata.annotations?.[annotations.initRuntimeRequest];
  if (text === undefined) return {};
  try {
    return InitRuntimeRequest.parse(JSON.parse(text)).envVars ?? {};
  } catch (error) {
    const why = error instanceof z.ZodError ? z.prettifyError(error) : "it is not JSON";
    throw new RametError("InvalidArgument", `The annotation ${annotations.initRuntimeRequest} is invalid: ${why}`, {
      hint: 'Write it as {"envVars":{"NAME":"value"}}',
      cause: error,
    });
  }
}

/** Identifies a request by 16 hex digits; undefined without a request. */
export function initRequestDigest({ metadata }: MaybeRequested): string | undefined {
  const text = metadata.annotations?.[annotations.initRuntimeRequest];
  return text === undefined ? undefined : createHash("sha256").update(text).digest("hex").slice(0, 16);
}
