import { RametError } from "../base/errors.ts";
import { canceled } from "../base/clock.ts";

/** The error for a request that got no answer. `what` says what failed, such as `get pods team-a/a`. */
export function networkError(what: string, error: unknown, signal?: AbortSignal): RametError {
  if (error instanceof RametError) return error;
  if (signal?.aborted === true) {
    return signal.reason instanceof RametError ? signal.reason : canceled(what, signal);
  }
  const code = codeOf(error);
  const why = error instanceof Error ? error.message : String(error);
  if (code.endsWith("_TIMEOUT")) {
    return new RametError("Timeout", `${what} failed: the API server did not respond in time (${code})`, {
      retryable: true,
      cause: error,
    });
  }
  const tls = /CERT|SIGNATURE|ALTNAME|SELF_SIGNED|SSL/.test(code);
  return new RametError("Unavailable", `${what} failed: the API server is unreachable: ${why}`, {
    retryable: true,
    cause: error,
    hint: tls
      ? "Check the certificate authority in the kubeconfig"
      : "Check that it runs and that the address is correct",
  });
}

/** Whether the request certainly never reached the server, so that it can be sent again whatever it is. */
export function wasNeverSent(error: RametError): boolean {
  return neverSent.has(codeOf(error.cause));
}

const neverSent: ReadonlySet<string> = new Set([
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "UND_ERR_CONNECT_TIMEOUT",
]);

/** The code of an error or of what lies beneath it; Node joins the tries of several addresses in an AggregateError. */
function codeOf(error: unknown): string {
  if (!(error instanceof Error)) return "";
  if ("code" in error && typeof error.code === "string") return error.code;
  if (error instanceof AggregateError) return codeOf(error.errors[0]);
  return codeOf(error.cause);
}
