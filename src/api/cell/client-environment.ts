/**
 * The variables by which programs know that they run in a sandbox of an E2B client. Whoever creates the sandbox requests `sandbox`
 * and `templateId`; the controllers add `sandboxId`, which nobody knows earlier.
 */
export const clientVariables = {
  /** `true`. */
  sandbox: "E2B_SANDBOX",
  sandboxId: "E2B_SANDBOX_ID",
  templateId: "E2B_TEMPLATE_ID",
} as const;

/** The id of a sandbox for E2B clients, whose ids have only digits and lower-case letters. */
export function clientSandboxId(uid: string): string {
  return uid.replaceAll("-", "");
}

/** The environment of a sandbox, with its own id if it is the sandbox of an E2B client. */
export function withClientSandboxId(environment: Record<string, string>, uid: string): Record<string, string> {
  if (environment[clientVariables.sandbox] !== "true") return environment;
  return { ...environment, [clientVariables.sandboxId]: clientSandboxId(uid) };
}
