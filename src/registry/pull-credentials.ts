import * as z from "zod";
import { dockerHub } from "../api/names/image-reference.ts";

/** The credentials of one registry, from a Secret for image pulls or a Docker configuration. */
export interface PullCredentials {
  username: string;
  password: string;
  /** A refresh token, which replaces the password. */
  identityToken?: string;
}

/** Credentials by the text that selects images: a host, optionally with a port, a path and `*` in labels. */
export type PullKeyring = readonly (readonly [pattern: string, credentials: PullCredentials])[];

/**
 * Reads the content of `.dockerconfigjson` (the format of Docker's `config.json`) or of the older `.dockercfg`, which has no key
 * `auths`. Undefined for an invalid one.
 */
export function parsePullSecret(text: string): PullKeyring | undefined {
  try {
    const value: unknown = JSON.parse(text);
    const { auths = value } = z.looseObject({ auths: z.unknown().optional() }).parse(value);
    const entries = Entries.parse(auths);
    return Object.entries(entries).flatMap(([pattern, entry]) => {
      const credentials = credentialsOf(entry);
      return credentials === undefined ? [] : [[pattern, credentials] as const];
    });
  } catch {
    return undefined;
  }
}

const Entries = z.record(
  z.string(),
  z.looseObject({
    auth: z.string().optional(),
    username: z.string().optional(),
    password: z.string().optional(),
    identitytoken: z.string().optional(),
  }),
);
type Entry = z.infer<typeof Entries>[string];

function credentialsOf({ auth, username, password, identitytoken }: Entry): PullCredentials | undefined {
  const decoded = auth === undefined ? "" : Buffer.from(auth, "base64").toString("utf8");
  const colon = decoded.indexOf(":");
  const own = colon < 0 ? { username: "", password: "" } : split(decoded, colon);
  const found = { username: username ?? own.username, password: password ?? own.password };
  if (identitytoken !== undefined && identitytoken !== "") return { ...found, identityToken: identitytoken };
  return found.username === "" && found.password === "" ? undefined : found;
}

function split(text: string, at: number): PullCredentials {
  return { username: text.slice(0, at), password: text.slice(at + 1) };
}

/**
 * The credentials for an image in the order in which a kubelet tries them: the most specific pattern first. The rules are those of
 * Kubernetes (pkg/credentialprovider/keyring.go, "Specifying imagePullSecrets"): the same port, the same number of labels, `*`
 * within one label, and a prefix of the path.
 * @param image the repository with its registry's host
 */
export function credentialsFor(
  image: { host: string; path: string },
  keyring: PullKeyring,
): readonly PullCredentials[] {
  const sorted = keyring.map(([pattern, credentials]) => ({ ...parsePattern(pattern), credentials }));
  const matching = sorted
    .filter(({ host, path }) => hostMatches(host, image.host) && `/${image.path}`.startsWith(path))
    .sort((a, b) => compare(b.host + b.path, a.host + a.path));
  if (matching.length > 0 || image.host !== dockerHub) return matching.map(({ credentials }) => credentials);
  return sorted.filter(({ host }) => host === "index.docker.io").map(({ credentials }) => credentials);
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

function parsePattern(pattern: string): { host: string; path: string } {
  const [, host = "", path = ""] = /^(?:https?:\/\/)?([^/]*)(.*)$/.exec(pattern) ?? [];
  const effective = path.replace(/^\/v[12](?=\/)/, "");
  return { host, path: effective === "/" ? "" : effective };
}

function hostMatches(pattern: string, host: string): boolean {
  const [patternName = "", patternPort] = pattern.split(":");
  const [name = "", port] = host.split(":");
  const labels = patternName.split(".");
  const own = name.split(".");
  if (patternPort !== port || labels.length !== own.length) return false;
  return labels.every((label, index) => labelMatches(label, own[index] ?? ""));
}

/** Without regular expressions: the pattern is a tenant's, and must not take exponential time. */
function labelMatches(pattern: string, label: string): boolean {
  const [first = "", ...parts] = pattern.split("*");
  if (parts.length === 0) return pattern === label;
  const last = parts.pop() ?? "";
  if (label.length < first.length + last.length || !label.startsWith(first) || !label.endsWith(last)) return false;
  let at = first.length;
  const end = label.length - last.length;
  for (const part of parts) {
    const found = label.indexOf(part, at);
    if (found < 0 || found + part.length > end) return false;
    at = found + part.length;
  }
  return true;
}
