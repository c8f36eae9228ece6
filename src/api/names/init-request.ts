import { createHash } from "node:crypto";
import * as z from "zod";
import { RametError } from "../../base/errors.ts";
import { annotations } from "./labels.ts";

/** What `agents.kruise.io/init-runtime-request` holds, as far as Ramet reads it: the reference's own shape. */
const InitRuntimeRequest = z.looseObject({ envVars: z.record(z.string(), z.string()).nullish() });

interface MaybeRequested {
  metadata: { annotations?: Record<string, string> | undefined };
}

/** The annotation's value that asks for these variables. */
export function initRuntimeRequest(envVars: Record<string, string>): string {
  return JSON.stringify({ envVars });
}

/**
 * The variables that somebody asked for beside the template's, from the annotation.
 * @throws RametError `InvalidArgument` when it is not legal; anybody may have written it
 */
export function requestedEnvironment({ metadata }: MaybeRequested): Record<string, string> {
  const text = metadata.annotations?.[annotations.initRuntimeRequest];
  if (text === undefined) return {};
  try {
    return InitRuntimeRequest.parse(JSON.parse(text)).envVars ?? {};
  } catch (error) {
    const why = error instanceof z.ZodError ? z.prettifyError(error) : "it is not JSON";
    throw new RametError("InvalidArgument", `The annotation ${annotations.initRuntimeRequest} is not legal: ${why}`, {
      hint: 'Write it as {"envVars":{"NAME":"value"}}',
      cause: error,
    });
  }
}

/** Tells one request from another: 16 hex digits. Undefined: there is none. */
export function initRequestDigest({ metadata }: MaybeRequested): string | undefined {
  const text = metadata.annotations?.[annotations.initRuntimeRequest];
  return text === undefined ? undefined : createHash("sha256").update(text).digest("hex").slice(0, 16);
}
