import { parse } from "yaml";
import * as z from "zod";
import { RametError } from "../../base/errors.ts";
import { requestDigest } from "../schema/digest.ts";
import { annotations } from "../names/labels.ts";

/** A literal text, or where a secret text is. */
const ClientPart = z.union([
  z.strictObject({ text: z.string().max(16_384) }),
  /** A secret that a client of the client API has stored. */
  z.strictObject({ clientSecret: z.string().min(1).max(253) }),
  z.strictObject({
    token: z.strictObject({ account: z.string().min(1).max(253), audience: z.string().min(1).max(512) }),
  }),
]);
const ClientParts = z.array(ClientPart).max(32);
export type ClientPart = z.infer<typeof ClientPart>;

/** A part of a value. Only an annotation that its author may write can name a Secret. */
export type ValuePart = ClientPart | { secret: { name: string; key: string } };

/**
 * The references in a text: `$(secret/NAME/KEY)` and `$(token/ACCOUNT/AUDIENCE)`. An admission policy finds the names of Secrets and
 * accounts with the same expressions (src/install/credential-policies.ts).
 */
const reference = /\$\((secret|token)\/([a-z0-9.-]{1,253})\/([^()\s]{1,512})\)/g;

/**
 * Parses a value such as `Bearer $(secret/openai/token)`.
 * @throws RametError `InvalidArgument` if a reference has another form
 */
function parseValue(text: string, path: string): ValuePart[] {
  const parts: ValuePart[] = [];
  let end = 0;
  for (const { 0: whole, 1: kind, 2: name = "", 3: detail = "", index } of text.matchAll(reference)) {
    addText(parts, text.slice(end, index), path);
    parts.push(kind === "secret" ? { secret: { name, key: detail } } : { token: { account: name, audience: detail } });
    end = index + whole.length;
  }
  addText(parts, text.slice(end), path);
  return parts;
}

/** The references as they are written. */
function referencesIn(text: string): string[] {
  return [...text.matchAll(reference)].map(([whole]) => whole);
}

function addText(parts: ValuePart[], text: string, path: string): void {
  if (/\$\((secret|token)\b/.test(text)) {
    throw new RametError("InvalidArgument", `${path} has a reference that is not valid`, {
      hint: "Write it as $(secret/NAME/KEY) or $(token/ACCOUNT/AUDIENCE)",
    });
  }
  if (text !== "") parts.push({ text });
}

/** The headers and the proxy for requests of a sandbox, with references in place of secret values. */
export interface Credentials {
  /** Headers by domain (`name`, `*.name`, each with an optional `:port`). */
  rules: Record<string, Record<string, ValuePart[]>>;
  /** Whether headers are added to TLS requests too. The sandbox then trusts a CA of its namespace. */
  tls: boolean;
  /** PEM of certificates that are trusted at destinations, besides the public ones. */
  trustedCertificates?: string | undefined;
  egressProxy?: EgressProxy | undefined;
}

export interface EgressProxy {
  /** `host:port` of a SOCKS5 server. */
  address: string;
  username?: ValuePart[] | undefined;
  password?: ValuePart[] | undefined;
}

const Domain = z
  .string()
  .regex(/^(\*\.)?[a-z0-9_-]+(\.[a-z0-9_-]+)*(:\d{1,5})?$/i, "is not a name, *.name or name:port")
  .regex(/[a-z]/i, "is an address, and only a name can have credentials")
  .max(260)
  .transform((name) => name.toLowerCase());
const HeaderName = z.string().regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$/, "is not the name of a header");
const maxHeaders = 32;

function rulesOf<T extends z.ZodType>(value: T) {
  const headers = z.record(HeaderName, value).refine((given) => Object.keys(given).length <= maxHeaders, {
    error: `has more than ${maxHeaders} headers`,
  });
  return z
    .record(Domain, headers)
    .refine((rules) => Object.keys(rules).length <= 64, { error: "has more than 64 rules" });
}

const Address = z
  .string()
  .regex(/^[a-z0-9._-]+:\d{1,5}$/i, "is not host:port")
  .max(260);
const Text = z.string().max(16_384);

/** Each one is a call of the API server, again and again. */
const maxReferences = 64;
const tooManyReferences = `has more than ${maxReferences} different references`;

/** The annotation `ramet.dev/credentials`. */
const CredentialsAnnotation = z.strictObject({
  rules: rulesOf(Text).default({}),
  tls: z.boolean().default(false),
  trustedCertificates: Text.regex(/-----BEGIN CERTIFICATE-----/, "has no certificate in PEM").optional(),
  egressProxy: z.strictObject({ address: Address, username: Text.optional(), password: Text.optional() }).optional(),
});

/** The content of the annotation `ramet.dev/sealed-credentials`, which only the client API writes. */
export const ClientCredentials = z
  .strictObject({
    rules: rulesOf(ClientParts).default({}),
    tls: z.boolean().default(true),
    egressProxy: z
      .strictObject({ address: Address, username: ClientParts.optional(), password: ClientParts.optional() })
      .optional(),
  })
  .refine((given) => countReferences(given) <= maxReferences, { error: tooManyReferences, path: ["rules"] });
export type ClientCredentials = z.infer<typeof ClientCredentials>;

interface Holder {
  annotations?: Record<string, string> | undefined;
}

export interface CredentialsOrigin {
  template: Holder | undefined;
  sandbox: Holder & { namespace: string };
}

/**
 * The credentials of a sandbox: those of its template, then its own, then those that a client has sealed. A later rule for the same
 * domain replaces an earlier one. Undefined: it has none.
 * @param open opens what a client has sealed
 * @throws RametError `InvalidArgument`, which names the field and no value
 */
export function credentialsOf(
  { template, sandbox }: CredentialsOrigin,
  open: (namespace: string, sealed: string) => string,
): Credentials | undefined {
  const sealed = sandbox.annotations?.[annotations.sealedCredentials];
  const ofTemplate = ofAnnotation(template, `spec.template.metadata.annotations[${annotations.credentials}]`);
  const own = ofAnnotation(sandbox, `metadata.annotations[${annotations.credentials}]`);
  const client = sealed === undefined ? undefined : ofClient(open(sandbox.namespace, sealed));
  requireUnread({ ofTemplate, own, client });
  const levels = [ofTemplate, own, client].filter((level) => level !== undefined);
  if (levels.length === 0) return undefined;
  const merged = levels.reduce((above, level) => ({
    rules: { ...above.rules, ...level.rules },
    tls: above.tls || level.tls,
    trustedCertificates: joined(above.trustedCertificates, level.trustedCertificates),
    egressProxy: level.egressProxy ?? above.egressProxy,
  }));
  if (countReferences(merged) > maxReferences) throw invalid(`rules ${tooManyReferences}`);
  return merged;
}

type Requested = Record<"ofTemplate" | "own" | "client", Credentials | undefined>;

/**
 * A proxy, or a server with a certificate that only its owner issues, reads what is added to requests. So who sets one must be
 * allowed to read the values: the author of the template for all of them, and everyone for their own ones.
 */
function requireUnread({ ofTemplate, own, client }: Requested): void {
  const later = { ...own?.rules, ...client?.rules };
  const remaining = Object.entries(ofTemplate?.rules ?? {}).filter(([domain]) => !Object.hasOwn(later, domain));
  const hasValues = countReferences({ rules: Object.fromEntries(remaining) }) > 0;
  const hasSealed = client !== undefined && Object.keys(client.rules).length > 0;
  const ownField = readingField(own);
  if (ownField !== undefined && (hasValues || hasSealed))
    throw readable(`metadata.annotations[${annotations.credentials}].${ownField}`, hasValues);
  if (client?.egressProxy !== undefined && hasValues) throw readable("egressProxy of the client", true);
}

function readingField(level: Credentials | undefined): string | undefined {
  return (["egressProxy", "trustedCertificates"] as const).find((field) => level?.[field] !== undefined);
}

function readable(field: string, isOfTemplate: boolean): RametError {
  const whose = isOfTemplate ? "the template" : "the client";
  return new RametError(
    "InvalidArgument",
    `The credentials cannot be used: ${field} would let others read the values in rules of ${whose}`,
    { hint: isOfTemplate ? "Set it in the template, or replace these rules" : "Set it in the template" },
  );
}

function countReferences({ rules, egressProxy }: Pick<Credentials, "rules" | "egressProxy">): number {
  const { username = [], password = [] } = egressProxy ?? {};
  const parts = [...Object.values(rules).flatMap((headers) => Object.values(headers).flat()), ...username, ...password];
  return new Set(parts.filter((part) => !("text" in part)).map((part) => JSON.stringify(part))).size;
}

/** Identifies what the sandbox itself requests, by 16 hex digits; undefined if it requests nothing. It depends on no value. */
export function credentialsDigest({ annotations: given }: Holder): string | undefined {
  return requestDigest([given?.[annotations.credentials], given?.[annotations.sealedCredentials]]);
}

function ofAnnotation(holder: Holder | undefined, path: string): Credentials | undefined {
  const text = holder?.annotations?.[annotations.credentials];
  if (text === undefined) return undefined;
  const { rules, tls, trustedCertificates, egressProxy } = read(CredentialsAnnotation, () => parsed(text), path);
  const written = new Set(referencesIn(text));
  const value = (given: string, at: string): ValuePart[] => {
    // The admission policy has seen the annotation as text, without YAML's escapes.
    if (referencesIn(given).some((each) => !written.has(each)))
      throw invalid(`${path}${at} has a reference that is written with escapes`);
    return parseValue(given, `${path}${at}`);
  };
  const optional = (given: string | undefined, at: string) => (given === undefined ? undefined : value(given, at));
  return {
    rules: mapped(rules, (headers, domain) =>
      mapped(headers, (given, name) => value(given, `.rules[${domain}][${name}]`)),
    ),
    tls,
    trustedCertificates,
    egressProxy: egressProxy && {
      address: egressProxy.address,
      username: optional(egressProxy.username, ".egressProxy.username"),
      password: optional(egressProxy.password, ".egressProxy.password"),
    },
  };
}

function ofClient(text: string): Credentials {
  return read(ClientCredentials, () => JSON.parse(text), `metadata.annotations[${annotations.sealedCredentials}]`);
}

function parsed(text: string): unknown {
  if (text.length > 16_384) throw new Error("it is longer than 16384 characters");
  if ((text.match(/[[{]/g) ?? []).length > 256 || /^\s{64}/m.test(text)) throw new Error("it is nested too deeply");
  return parse(text, { logLevel: "error", stringKeys: true, maxAliasCount: 0 });
}

function read<T extends z.ZodType>(schema: T, from: () => unknown, path: string): z.infer<T> {
  let value: unknown;
  try {
    value = from();
  } catch {
    // The parser's message quotes the text.
    throw invalid(`${path} is not JSON or YAML, or too large`);
  }
  const { success, data, error } = schema.safeParse(value);
  if (success) return data;
  const [issue] = error.issues;
  const message = issue?.code === "invalid_key" ? issue.issues[0]?.message : issue?.message;
  throw invalid(`${path}${(issue?.path ?? []).map((at) => `[${String(at)}]`).join("")} ${message ?? ""}`);
}

function mapped<T, U>(values: Record<string, T>, map: (value: T, name: string) => U): Record<string, U> {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, map(value, name)]));
}

function joined(...texts: (string | undefined)[]): string | undefined {
  const given = texts.filter((text) => text !== undefined);
  return given.length === 0 ? undefined : given.join("\n");
}

function invalid(what: string): RametError {
  return new RametError("InvalidArgument", `The credentials cannot be read: ${what}`, {
    hint: "Write them as {rules: {api.example.org: {Authorization: Bearer $(secret/NAME/KEY)}}}",
  });
}
