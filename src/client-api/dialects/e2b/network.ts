import * as z from "zod";
import { EgressRules, namesInside, parseEgressRule } from "../../../api/egress/egress-rules.ts";
import type { Sandbox } from "../../../api/kinds/sandbox.ts";
import { annotations, jsonAnnotation } from "../../../api/names/labels.ts";
import { requestHost } from "../../../api/names/request-host.ts";
import { guestClientPort } from "../../../api/wire/cell-api.ts";
import { defined } from "../../../base/defined.ts";
import { RametError } from "../../../base/errors.ts";
import type { Caller } from "../../keys/callers.ts";
import { needs } from "../../keys/needs.ts";
import type { E2b } from "./call.ts";
import { type Network, type NewSandbox, Tokens } from "./schemas.ts";
import { ClientCredentials, type ClientPart } from "../../../api/credentials/credentials.ts";

type Requested = Pick<NewSandbox, "network" | "allow_internet_access">;

/**
 * The annotations that request the network of a client: egress rules, and credentials that only the controllers can read.
 * @throws RametError `InvalidArgument`; `NotSupported`; `Forbidden` if a rule uses secrets, and the key may not read them
 */
export async function requestedNetwork(
  { secrets, callers }: Pick<E2b, "secrets" | "callers">,
  caller: Caller,
  { tokens, ...request }: Requested & { tokens: Tokens },
): Promise<Record<string, string>> {
  const credentials = clientCredentials(request.network ?? {}, { account: caller.serviceAccount, tokens });
  if (credentials !== undefined && usesSecrets(credentials)) await callers.require(caller, ...needs.readSecret);
  return {
    ...egressAnnotations(request),
    ...clientNetworkAnnotation(request),
    ...(Object.keys(tokens).length > 0 && { [annotations.clientTokens]: JSON.stringify(tokens) }),
    ...(credentials && { [annotations.sealedCredentials]: await secrets.seal(caller.namespace, credentials) }),
  };
}

/**
 * Removes what a client has requested, but its tokens, which an update of the network cannot contain. The rules of the template, the
 * namespace and the runtime still apply.
 */
export const noNetwork = { [annotations.egress]: null, [annotations.sealedCredentials]: null };

/** The tokens that a client has registered for its sandbox. */
export function clientTokens(sandbox: Sandbox): Tokens {
  return jsonAnnotation(sandbox, annotations.clientTokens, Tokens) ?? {};
}

/** The request denies everything that `allowOut` does not name. */
export const everything = "0.0.0.0/0";

/**
 * The annotations that request the egress rules of a client. In E2B, an allowed destination beats a denied one.
 * @throws RametError `InvalidArgument`; `NotSupported`, naming the field
 */
export function egressAnnotations({
  network = {},
  allow_internet_access: internet,
}: Requested): Record<string, string> {
  const { denyOut = [] } = network;
  const rules = rulesOf(internet === false ? { ...network, denyOut: [...denyOut, everything] } : network);
  return rules === undefined ? {} : { [annotations.egress]: JSON.stringify(rules) };
}

function rulesOf({ allowOut: named = [], denyOut = [], egressProxy, dnsServers }: Network): EgressRules | undefined {
  if (named.length + denyOut.length === 0) return undefined;
  // The client allows its proxy by naming it.
  const allowOut = egressProxy && denyOut.includes(everything) ? [...named, egressProxy.address] : named;
  const name = denyOut.find((entry) => !isAddress(entry));
  if (name !== undefined)
    throw new RametError("InvalidArgument", `network.denyOut: ${JSON.stringify(name)} is not an address or a range`);
  const domain = named.find((entry) => !isAddress(entry));
  if (denyOut.includes(everything)) {
    // In E2B, they have no effect without a name.
    const servers = domain === undefined ? [] : (dnsServers ?? []);
    return parsed({ default: "deny", allow: [...new Set([...allowOut, ...servers])], deny: [] });
  }
  if (domain !== undefined) {
    throw new RametError("InvalidArgument", `network.allowOut: ${JSON.stringify(domain)} is a name`, {
      hint: `Add ${everything} to denyOut: a name is only allowed where everything else is denied`,
    });
  }
  const exception = allowOut.find((entry) => isInside(entry, denyOut));
  if (exception !== undefined) {
    throw new RametError("NotSupported", `network.allowOut: ${exception} is inside a range of denyOut`, {
      hint: `Deny ${everything}, and allow what the sandbox needs`,
    });
  }
  return parsed({ default: "allow", allow: [], deny: denyOut });
}

function isAddress(entry: string): boolean {
  const rule = parseEgressRule(entry);
  return typeof rule !== "string" && rule.target !== "any" && "range" in rule.target;
}

function isInside(entry: string, ranges: readonly string[]): boolean {
  const rule = parseEgressRule(entry);
  return typeof rule !== "string" && namesInside(rule, ranges);
}

function parsed(rules: unknown): EgressRules {
  const { data, error } = EgressRules.safeParse(rules);
  if (data !== undefined) return data;
  throw new RametError("InvalidArgument", `network: ${error.issues[0]?.message ?? "it is not valid"}`);
}

/**
 * The annotations with which gateways serve the ports of a client's sandbox.
 * @throws RametError `InvalidArgument`, naming the field
 */
export function trafficAnnotations({
  allowPublicTraffic,
  maskRequestHost,
  httpsPorts,
}: Network): Record<string, string> {
  const host = maskRequestHost ?? "";
  if (host !== "" && requestHost(host, guestClientPort) === undefined) {
    throw new RametError("InvalidArgument", "network.maskRequestHost is not a host name, optionally with a port", {
      hint: "Write it as host.example.com or host.example.com:${PORT}",
    });
  }
  const ports = [...new Set(httpsPorts ?? [])];
  if (ports.includes(guestClientPort))
    throw new RametError(
      "InvalidArgument",
      `network.httpsPorts contains ${guestClientPort}, which is not the sandbox's`,
    );
  return {
    ...(allowPublicTraffic !== false && { [annotations.publicPorts]: "*" }),
    ...(host !== "" && { [annotations.requestHost]: host }),
    ...(ports.length > 0 && { [annotations.httpsPorts]: ports.join(",") }),
  };
}

/** The network settings that clients get back, without those in other annotations. Values of credentials are not in it. */
const ClientNetwork = z.object({
  allowInternetAccess: z.boolean().optional(),
  /** The address. */
  egressProxy: z.string().optional(),
  /** The domains. */
  rules: z.array(z.string()).optional(),
});

/** The annotation with what a client gets back of its request. */
export function clientNetworkAnnotation({
  network = {},
  allow_internet_access: allowInternetAccess,
}: Requested): Record<string, string> {
  const { egressProxy, rules } = network;
  const noted: z.infer<typeof ClientNetwork> = {
    ...defined({ allowInternetAccess }),
    ...(egressProxy && { egressProxy: egressProxy.address }),
    ...(rules && { rules: Object.keys(rules) }),
  };
  return { [annotations.clientNetwork]: JSON.stringify(noted) };
}

/** The network settings of a sandbox, as clients get them. */
export function networkView(sandbox: Sandbox) {
  const given = sandbox.metadata.annotations ?? {};
  const noted = jsonAnnotation(sandbox, annotations.clientNetwork, ClientNetwork) ?? {};
  const { allowInternetAccess, egressProxy, rules } = noted;
  const host = given[annotations.requestHost];
  const httpsPorts = (given[annotations.httpsPorts] ?? "").split(",").filter((port) => /^\s*\d{1,5}\s*$/.test(port));
  return {
    ...defined({ allowInternetAccess }),
    network: {
      ...egressView(jsonAnnotation(sandbox, annotations.egress, EgressRules)),
      ...(rules && { rules: Object.fromEntries(rules.map((domain) => [domain, [{}]])) }),
      ...(egressProxy !== undefined && { egressProxy: { address: egressProxy } }),
      allowPublicTraffic: given[annotations.publicPorts]?.trim() === "*",
      ...defined({ maskRequestHost: host }),
      ...(httpsPorts.length > 0 && { httpsPorts: httpsPorts.map(Number) }),
    },
  };
}

/** In the words of E2B, which has no default: what is denied by default is the range of all addresses. */
function egressView(rules: EgressRules | undefined): { allowOut?: string[]; denyOut?: string[] } {
  if (rules === undefined) return {};
  const { default: otherwise, allow, deny } = rules;
  const denyOut = otherwise === "deny" ? [everything, ...deny] : deny;
  return { ...(allow.length > 0 && { allowOut: allow }), ...(denyOut.length > 0 && { denyOut }) };
}

/** The meaning of references in headers. */
interface CredentialsContext {
  /** The service account of the client's key, whose tokens the client can use. */
  account: string;
  /** The tokens of the sandbox by name. */
  tokens: Tokens;
}

/**
 * What a client requests to be added to requests of its sandbox; undefined: nothing.
 * @throws RametError `InvalidArgument`, which names no value
 */
function clientCredentials(
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
function usesSecrets({ rules }: ClientCredentials): boolean {
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
