import type * as z from "zod";
import { parse } from "yaml";
import { defined } from "../../base/defined.ts";
import { RametError } from "../../base/errors.ts";
import { specialAddresses } from "../../base/special-addresses.ts";
import type { EgressPolicy } from "../wire/cell-api.ts";
import { requestDigest, shortDigestOf } from "../schema/digest.ts";
import { annotations, labels } from "../names/labels.ts";
import {
  coversRule,
  type EgressRule,
  EgressRules,
  isName,
  namesBelow,
  namesInside,
  namesMetadata,
  namesPodIdentity,
  parseEgressRule,
} from "./egress-rules.ts";

/** The rules of the runtime, which no other level can exceed. */
export interface RuntimeEgress {
  rules?: z.input<typeof EgressRules> | undefined;
  /** IPv4 ranges that only a rule of the runtime opens, if it names an address or a range inside. */
  clusterRanges?: readonly string[] | undefined;
  /** The cluster's DNS domain. Only a rule of the runtime opens its names. @default cluster.local */
  clusterDomain?: string | undefined;
}

/** The metadata of an object that can hold rules. */
export interface EgressHolder {
  annotations?: Record<string, string> | undefined;
  labels?: Record<string, string> | undefined;
}

export interface EffectiveEgress {
  policy: EgressPolicy;
  /** The rule that cannot be honoured, with the path of the field. The policy is then narrower than requested, never wider. */
  problem?: RametError;
}

/**
 * The policy of a sandbox: a connection must be allowed by the runtime, the namespace, the template and the sandbox. So a level
 * can only narrow what the levels above allow, except that a namespace can open the address of Pod credentials. A level that
 * cannot be read denies everything.
 */
export function effectiveEgress(
  runtime: RuntimeEgress,
  namespace: EgressHolder | undefined,
  template: EgressHolder | undefined,
  sandbox: EgressHolder | undefined,
): EffectiveEgress {
  const { default: fallback = "allow", allow: given = [], deny = [] } = runtime.rules ?? {};
  const ofNamespace = levelsOf(namespace, "the namespace's metadata");
  const allow = fallback === "deny" ? given : [...given, ...openedByNamespace(ofNamespace)];
  const levels = [...ofNamespace, ...levelsOf(template, "spec.template.metadata"), ...levelsOf(sandbox, "metadata")];
  const top = levelOf("the runtime's egress", { default: fallback, allow, deny });
  const problem = levels.map((level, at) => problemOf(level, [top, ...levels.slice(0, at)], runtime)).find(Boolean);
  const narrowedBy = levels.map(({ rules }) => ({ ...rules, default: rules.default ?? "allow" }));
  return {
    policy: { default: fallback, allow, deny, ...(narrowedBy.length > 0 && { narrowedBy }) },
    ...defined({ problem }),
  };
}

/** Only administrators change namespaces, so a namespace can open the address of Pod credentials for its sandboxes. */
function openedByNamespace(levels: readonly Level[]): string[] {
  return levels.flatMap(({ allow }) => allow.filter(({ rule }) => namesPodIdentity(rule)).map(({ text }) => text));
}

/** Identifies a policy by 16 hex digits. */
export function egressDigest(policy: EgressPolicy): string {
  return shortDigestOf(policy);
}

/** Identifies the rules that an object itself requests, by 16 hex digits; undefined if it requests none. */
export function requestedEgress(holder: EgressHolder): string | undefined {
  return requestDigest([holder.annotations?.[annotations.egress], ...accessOf(holder).map(([, value]) => value)]);
}

/**
 * Validates the rules of the runtime.
 * @param names the names of the fields in error messages: flags or arguments
 * @throws RametError `InvalidArgument` that names the field
 */
export function parseRuntimeEgress(given: unknown, names: Record<keyof EgressRules, string>): EgressRules {
  const { data, error } = EgressRules.safeParse(given);
  if (data === undefined) {
    const [issue] = error.issues;
    const [field = "", ...path] = issue?.path ?? [];
    const name = Object.hasOwn(names, field) ? names[field as keyof EgressRules] : String(field);
    throw invalid(`${name}${path.map((at) => `[${String(at)}]`).join("")}: ${issue?.message ?? ""}`);
  }
  const metadata = parsedRules(data.allow).find(({ rule }) => namesMetadata(rule));
  if (metadata !== undefined) throw invalid(`${names.allow}[${metadata.at}]: ${isMetadata(metadata.text)}`);
  return data;
}

interface Level {
  /** The path of the annotation or the label. */
  path: string;
  rules: EgressRules;
  /** The same rules, parsed once: each rule of a level is compared with all rules above it. */
  allow: ParsedRule[];
  deny: ParsedRule[];
  /** Why it could not be read. */
  unreadable?: RametError;
}

interface ParsedRule {
  at: number;
  text: string;
  rule: EgressRule;
}

function levelOf(path: string, rules: EgressRules): Level {
  return { path, rules, allow: parsedRules(rules.allow), deny: parsedRules(rules.deny) };
}

const denyAll: EgressRules = { default: "deny", allow: [], deny: [] };

/** An annotation in the size of its limit, from three levels, fits into a variable of a container. */
const maxCharacters = 16_384;

function levelsOf(holder: EgressHolder | undefined, path: string): Level[] {
  const text = holder?.annotations?.[annotations.egress];
  return [
    ...(text === undefined ? [] : [levelOfText(text, `${path}.annotations[${annotations.egress}]`)]),
    ...accessOf(holder).flatMap(([map, value]) =>
      levelOfAccess(value, `${path}.${map}[${labels.allowInternetAccess}]`),
    ),
  ];
}

/** OpenKruise Agents and ACS write `true` by default, so it requests nothing. */
export function accessOf(holder: EgressHolder | undefined) {
  const maps = ["annotations", "labels"] as const;
  return maps.map((map) => {
    const value = holder?.[map]?.[labels.allowInternetAccess];
    return [map, value === "true" ? undefined : value] as const;
  });
}

function levelOfText(text: string, path: string): Level {
  try {
    return levelOf(path, EgressRules.parse(parsedText(text)));
  } catch (error) {
    return { ...levelOf(path, denyAll), unreadable: invalid(`${path}${reason(error)}`) };
  }
}

function parsedText(text: string): unknown {
  if (text.length > maxCharacters) throw new Error(`it is longer than ${maxCharacters} characters`);
  if (!isShallow(text)) throw new Error("it is nested too deeply");
  // A warning would be written to the controller's standard error, in the words of the annotation's author.
  return parse(text, { logLevel: "error", stringKeys: true });
}

/**
 * Whether a text cannot be nested much deeper than rules are. The YAML parser is recursive, and V8 ends the process when a
 * regular expression is compiled while the stack is nearly full. Counts what opens a level: brackets in all lines, and the
 * indentation and the indicators (`-`, `?`, `:`) of each line.
 */
function isShallow(text: string): boolean {
  const brackets = text.match(/[[{]/g) ?? [];
  const lines = text.split("\n").map((line) => line.search(/\S|$/) + (line.match(/[-?:](?=\s|$)/g) ?? []).length);
  return [brackets.length, ...lines].every((levels) => levels <= maxLevels);
}

/** Rules have two levels, each of which can be indented. */
const maxLevels = 64;

function reason(error: unknown): string {
  const { issues: [issue] = [] } = error as { issues?: z.core.$ZodIssue[] };
  if (issue === undefined) return `: ${(error as Error).message.split("\n")[0] ?? ""}`;
  const path = issue.path.map((at) => (typeof at === "number" ? `[${at}]` : `.${String(at)}`)).join("");
  return `${path}: ${issue.message}`;
}

function levelOfAccess(value: string | undefined, path: string): Level[] {
  if (value === undefined) return [];
  const level = levelOf(path, denyAll);
  if (value === "false") return [level];
  return [{ ...level, unreadable: invalid(`${path}: it is ${JSON.stringify(value)}, not true or false`) }];
}

/** Finds a request of a level that a level above does not allow. */
function problemOf(level: Level, above: readonly Level[], runtime: RuntimeEgress): RametError | undefined {
  if (level.unreadable !== undefined) return level.unreadable;
  const { path, rules, allow } = level;
  const denying = above.find(({ rules: { default: fallback } }) => fallback === "deny");
  if (rules.default === "allow" && denying !== undefined)
    return invalid(`${path}.default: ${denying.path} denies what no rule allows`);
  for (const { at, text, rule } of allow) {
    const why = whyNot(text, rule, above, runtime);
    if (why !== undefined) return invalid(`${path}.allow[${at}]: ${why}`);
  }
  return undefined;
}

function whyNot(
  text: string,
  rule: EgressRule,
  above: readonly Level[],
  { clusterRanges = [], clusterDomain }: RuntimeEgress,
): string | undefined {
  if (namesMetadata(rule)) return isMetadata(text);
  const { reserved, podIdentity } = specialAddresses;
  const ranges = [...reserved, ...podIdentity, ...clusterRanges].filter((range) => namesInside(rule, [range]));
  const domains = [...specialAddresses.names, ...(clusterDomain === undefined ? [] : [clusterDomain])];
  const closed = [...ranges, ...domains.filter((domain) => namesBelow(rule, domain))];
  for (const [at, { path, rules, allow, deny }] of above.entries()) {
    if (deny.some(({ rule: denied }) => coversRule(denied, rule))) return `${path} denies ${text}`;
    const allowing = allow.filter(({ rule: allowed }) => coversRule(allowed, rule));
    const mustBeNamed = at === 0 && closed.length > 0;
    if (mustBeNamed && !allowing.some(({ rule: allowed }) => namesInside(allowed, ranges) || isName(allowed)))
      return `${text} is in ${closed[0] ?? ""}, and ${path} does not open it`;
    if (rules.default === "deny" && allowing.length === 0) return `${path} does not allow ${text}`;
  }
  return undefined;
}

function parsedRules(texts: readonly string[]): ParsedRule[] {
  return texts.flatMap((text, at) => {
    const rule = parseEgressRule(text);
    return typeof rule === "string" ? [] : [{ at, text, rule }];
  });
}

function isMetadata(text: string): string {
  return `${text} is an address of metadata services or link-local, which no rule opens`;
}

function invalid(message: string): RametError {
  return new RametError("InvalidArgument", `Egress rules cannot be honoured: ${message}`, {
    hint: 'Write them as {"default": "deny", "allow": ["*.example.org:443"], "deny": ["10.20.9.0/24"]}, within the rules of the levels above',
  });
}
