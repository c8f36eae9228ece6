import type * as z from "zod";
import { ClientCredentials, type ClientPart } from "../../../api/credentials/credentials.ts";
import { RametError } from "../../../base/errors.ts";
import type { Network, Tokens } from "./schemas.ts";

/** The meaning of references in headers. */
export interface CredentialsContext {
  /** The service account of the client's key, whose tokens the client can use. */
  account: string;
  /** The tokens of the sandbox by name. */
  tokens: Tokens;
}

/**
 * What a client requests to be added to requests of its sandbox; undefined: nothing.
 * @throws RametError `InvalidArgument`, which names no value
 */
export function clientCredentials(
  { rules, egressProxy }: Pick<Network, "rules" | "egressProxy">,
  context: CredentialsContext,
): ClientCredentials | undefined {
  const given = Object.entries(rules ?? {}).map(([domain, each]) => {
    const headers = Object.assign({}, ...each.map(({ transform }) => transform?.headers ?? {})) as Record<
      string,
      string
    >;
    const parts = Object.entries(headers).map(([name, value]) => [name, partsOf(value, domain, context)] as const);
    return [domain, Object.fromEntries(parts)] as const;
  });
  if (given.length === 0 && (egressProxy ?? undefined) === undefined) return undefined;
  const { success, data, error } = ClientCredentials.safeParse({
    rules: Object.fromEntries(given),
    // E2B's rules are for HTTPS.
    tls: given.length > 0,
    ...(egressProxy && { egressProxy: proxyOf(egressProxy) }),
  });
  if (success) return data;
  throw new RametError("InvalidArgument", `network.${whereOf(error)}`);
}

/** Whether a client needs the right to use the secrets of its namespace. */
export function usesSecrets({ rules }: ClientCredentials): boolean {
  return Object.values(rules).some((headers) =>
    Object.values(headers).some((parts) => parts.some((part) => "clientSecret" in part)),
  );
}

function proxyOf({ address, username, password, tls = null }: NonNullable<Network["egressProxy"]>) {
  if (tls !== null) {
    throw new RametError("NotSupported", "network.egressProxy.tls is not supported", {
      hint: "Use a proxy that accepts SOCKS5 without TLS",
    });
  }
  const literal = (text: string | undefined) => (text === undefined ? undefined : [{ text }]);
  return { address, username: literal(username), password: literal(password) };
}

/** The placeholders of E2B's SDKs: `${e2b.secrets.NAME}` and `${e2b.identity.tokens.NAME}`. */
const placeholder = /\$\{e2b\.(secrets|identity\.tokens)\.([^{}]{1,128})\}/g;

function partsOf(value: string, domain: string, { account, tokens }: CredentialsContext): ClientPart[] {
  const parts: ClientPart[] = [];
  let end = 0;
  for (const { 0: whole, 1: kind, 2: name = "", index } of value.matchAll(placeholder)) {
    if (index > end) parts.push({ text: value.slice(end, index) });
    end = index + whole.length;
    if (kind === "secrets") {
      parts.push({ clientSecret: name.toLowerCase() });
      continue;
    }
    const token = Object.hasOwn(tokens, name) ? tokens[name] : undefined;
    if (token === undefined) {
      throw new RametError(
        "InvalidArgument",
        `network.rules[${domain}] uses the token ${name}, which the sandbox does not have`,
        {
          hint: "Register it as iam.tokens when you create the sandbox",
        },
      );
    }
    parts.push({ token: { account, audience: token.audience } });
  }
  if (end < value.length) parts.push({ text: value.slice(end) });
  return parts;
}

function whereOf({ issues: [issue] }: z.ZodError): string {
  const path = (issue?.path ?? []).map((at, index) => (index === 0 ? String(at) : `[${String(at)}]`)).join("");
  const message = issue?.code === "invalid_key" ? issue.issues[0]?.message : issue?.message;
  return `${path} ${message ?? "is not valid"}`;
}
