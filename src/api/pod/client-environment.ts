/**
 * The variables by which programs know that they run in a sandbox of an E2B client. The creator of the sandbox requests them;
 * the controllers add `sandboxId`, which nobody knows earlier. The sandboxes of a set have them from the start, because a claim is
 * faster without a request.
 */
export const clientVariables = {
  /** `true`. */
  sandbox: "E2B_SANDBOX",
  sandboxId: "E2B_SANDBOX_ID",
  templateId: "E2B_TEMPLATE_ID",
  teamId: "E2B_TEAM_ID",
} as const;

/** Returns the variables that the creator of a sandbox requests. A client's own variables of these names have no effect. */
export function clientEnvironment(namespace: string, templateId: string): Record<string, string> {
  return {
    [clientVariables.sandbox]: "true",
    [clientVariables.templateId]: templateId,
    [clientVariables.teamId]: namespace,
  };
}

/** The id of a sandbox for E2B clients, whose ids have only digits and lower-case letters: the UID without dashes. */
export function clientSandboxId(uid: string): string {
  return uid.replaceAll("-", "");
}

/** The environment of a sandbox, with its own id if it is the sandbox of an E2B client. */
export function withClientSandboxId(environment: Record<string, string>, uid: string): Record<string, string> {
  if (environment[clientVariables.sandbox] !== "true") return environment;
  return { ...environment, [clientVariables.sandboxId]: clientSandboxId(uid) };
}
