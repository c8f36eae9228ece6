import { createHash } from "node:crypto";
import * as z from "zod";
import { RametError } from "../../base/errors.ts";
import { environmentProblem } from "../schema/rules.ts";
import { annotations } from "./labels.ts";

/** The part of `agents.kruise.io/init-runtime-request` that Ramet reads, in the format of OpenKruise Agents. */
const InitRuntimeRequest = z.looseObject({ envVars: z.record(z.string(), z.string()).nullish().check(areVariables) });

function areVariables({ value, issues }: z.core.ParsePayload<Record<string, string> | null | undefined>): void {
  const message = environmentProblem(value ?? {});
  // The values are secrets, so the issue has none.
  if (message !== undefined) issues.push({ code: "custom", message, input: undefined });
}

interface MaybeRequested {
  metadata: { namespace: string; annotations?: Record<string, string> | undefined };
}

/** Makes requests unreadable for everyone but the controllers. A request can be opened only in its own namespace. */
export interface RequestSeal {
  seal(namespace: string, request: string): string;
  /** @throws RametError `InvalidArgument` */
  open(namespace: string, sealed: string): string;
}

/** Begins a request that was sealed for the public key of the controllers. */
export const publicSealForm = "p1.";

/** The annotation value that requests these variables. */
export function initRuntimeRequest(envVars: Record<string, string>): string {
  return JSON.stringify({ envVars });
}

/** The annotations that replace a request in plain text, which a client has set; undefined without one. */
export function sealedAnnotations(
  { metadata: { namespace, annotations: given } }: MaybeRequested,
  seal: RequestSeal,
): Record<string, string | null> | undefined {
  const text = given?.[annotations.initRuntimeRequest];
  if (text === undefined) return undefined;
  return { [annotations.initRuntimeRequest]: null, [annotations.sealedInitRequest]: seal.seal(namespace, text) };
}

/**
 * The variables that a sandbox requests in addition to those of the template.
 * @throws RametError `InvalidArgument` when the annotation is invalid
 */
export function requestedEnvironment(sandbox: MaybeRequested, seal: RequestSeal): Record<string, string> {
  const text = requestText(sandbox, seal);
  if (text === undefined) return {};
  try {
    return InitRuntimeRequest.parse(JSON.parse(text)).envVars ?? {};
  } catch (error) {
    // No cause: messages of the JSON parser quote the text.
    const why = error instanceof z.ZodError ? z.prettifyError(error) : "it is not JSON";
    throw new RametError("InvalidArgument", `The annotation ${annotations.initRuntimeRequest} is invalid: ${why}`, {
      hint: 'Write it as {"envVars":{"NAME":"value"}}',
    });
  }
}

/**
 * The fields of a request that the guest does not apply, such as the token that OpenKruise Agents' manager chooses. None for an
 * invalid request, which has its own error.
 */
export function ignoredRequestFields(sandbox: MaybeRequested, seal: RequestSeal): string[] {
  try {
    const text = requestText(sandbox, seal);
    if (text === undefined) return [];
    const { envVars: _, ...others } = InitRuntimeRequest.parse(JSON.parse(text));
    return Object.entries(others).flatMap(([field, value]) => (requestsNothing(value) ? [] : [field]));
  } catch {
    return [];
  }
}

function requestsNothing(value: unknown): boolean {
  return value === null || value === false || value === "";
}

/** Plain text is newer than the sealed request. */
function requestText(
  { metadata: { namespace, annotations: given } }: MaybeRequested,
  seal: RequestSeal,
): string | undefined {
  const sealed = given?.[annotations.sealedInitRequest];
  return given?.[annotations.initRuntimeRequest] ?? (sealed === undefined ? undefined : seal.open(namespace, sealed));
}

/** Identifies a request by 16 hex digits; undefined without a request. */
export function initRequestDigest({ metadata: { annotations: given } }: MaybeRequested): string | undefined {
  const text = given?.[annotations.initRuntimeRequest] ?? given?.[annotations.sealedInitRequest];
  return text === undefined ? undefined : createHash("sha256").update(text).digest("hex").slice(0, 16);
}
