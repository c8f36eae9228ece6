import * as z from "zod";
import { specialAddresses } from "../../base/special-addresses.ts";

/** One rule of an egress policy: an IPv4 address, a range, a name, `*.name` or `*`, each with an optional `:port`. */
export interface EgressRule {
  target: { range: Ipv4Range } | { name: string; below: boolean } | "any";
  /** Undefined: every port. */
  port: number | undefined;
}

export interface Ipv4Range {
  /** The first address as a number. */
  first: number;
  bits: number;
}

/**
 * Parses a rule, as link does (`native/link/internal/policy/rule.go`; `testdata/rules.json` there is tested with both).
 * @returns the reason if it is not valid
 */
export function parseEgressRule(text: string): EgressRule | string {
  const [host = "", portText, ...more] = text.split(":");
  if (more.length > 0) return "IPv6 is not supported";
  if (portText !== undefined && !isPort(portText)) return "the port is not from 1 to 65535";
  const target = parseTarget(host);
  if (target === undefined) return "it is not an IPv4 address, range or name";
  return { target, port: portText === undefined ? undefined : Number(portText) };
}

function isPort(text: string): boolean {
  return /^\d+$/.test(text) && Number(text) >= 1 && Number(text) <= 65_535;
}

function parseTarget(host: string): EgressRule["target"] | undefined {
  if (host === "*") return "any";
  const range = parseRange(host);
  if (range !== undefined) return { range };
  const [, wildcard, name = ""] = /^(\*\.)?(.*)$/s.exec(normalName(host)) ?? [];
  return isLegalName(name) ? { name, below: wildcard !== undefined } : undefined;
}

const Rule = z.string().superRefine((text, context) => {
  const rule = parseEgressRule(text);
  if (typeof rule === "string") context.addIssue(`${JSON.stringify(text)} is not a rule: ${rule}`);
});

/** Each connection of a sandbox is compared with the rules of all levels, and each rule with those of the levels above. */
export const maxEgressRules = 256;

/** The egress rules of one level: the runtime, a namespace, a template or a sandbox. */
export const EgressRules = z
  .strictObject({
    /** The default for connections without a rule. Absent: `allow`, as far as the level above allows. */
    default: z.enum(["allow", "deny"]).optional(),
    allow: z.array(Rule).default([]),
    deny: z.array(Rule).default([]),
  })
  .superRefine(({ allow, deny }, context) => {
    const rules = allow.length + deny.length;
    if (rules <= maxEgressRules) return;
    const message = `it has ${rules} rules with those of ${allow.length > deny.length ? "deny" : "allow"}, and a level can have ${maxEgressRules}`;
    context.addIssue({ code: "custom", message, path: [allow.length > deny.length ? "allow" : "deny"] });
  });
export type EgressRules = z.infer<typeof EgressRules>;

/** Whether a rule matches every connection that the other one matches. */
export function coversRule(outer: EgressRule, inner: EgressRule): boolean {
  if (outer.port !== undefined && outer.port !== inner.port) return false;
  if (outer.target === "any") return true;
  if (inner.target === "any") return false;
  if ("range" in outer.target) return "range" in inner.target && isInside(inner.target.range, outer.target.range);
  if ("range" in inner.target) return false;
  const { name, below } = outer.target;
  if (below) return inner.target.name.endsWith(`.${name}`) || (inner.target.below && inner.target.name === name);
  return !inner.target.below && inner.target.name === name;
}

/** Whether a rule names an address or a range inside one of these ranges. Only such a rule opens a refused range. */
export function namesInside({ target }: EgressRule, ranges: readonly string[]): boolean {
  if (target === "any" || !("range" in target)) return false;
  return ranges.some((text) => {
    const range = parseRange(text);
    return range !== undefined && isInside(target.range, range);
  });
}

export function isName({ target }: EgressRule): boolean {
  return target !== "any" && "name" in target;
}

/** Whether a rule names this domain or a name below it. */
export function namesBelow({ target }: EgressRule, domain: string): boolean {
  return target !== "any" && "name" in target && `.${target.name}`.endsWith(`.${normalName(domain)}`);
}

/** Whether a rule names only addresses that no policy can open. */
export function namesMetadata(rule: EgressRule): boolean {
  return namesInside(rule, specialAddresses.metadata) && !namesPodIdentity(rule);
}

/** Whether a rule names the address of Pod credentials, which only administrators can open. */
export function namesPodIdentity(rule: EgressRule): boolean {
  return namesInside(rule, specialAddresses.podIdentity);
}

/** Parses `10.0.0.1` or `10.0.0.0/8`. */
function parseRange(text: string): Ipv4Range | undefined {
  const [address = "", bitsText = "32", ...more] = text.split("/");
  const bits = Number(bitsText);
  if (more.length > 0 || !/^(0|[1-9]\d?)$/.test(bitsText) || bits > 32) return undefined;
  const parts = address.split(".");
  if (parts.length !== 4 || !parts.every((part) => /^(0|[1-9]\d{0,2})$/.test(part) && Number(part) < 256))
    return undefined;
  const whole = parts.reduce((sum, part) => sum * 256 + Number(part), 0);
  return { first: whole - (whole % 2 ** (32 - bits)), bits };
}

function isInside(inner: Ipv4Range, outer: Ipv4Range): boolean {
  return inner.bits >= outer.bits && inner.first >= outer.first && inner.first < outer.first + 2 ** (32 - outer.bits);
}

function normalName(name: string): string {
  return name.toLowerCase().replace(/\.$/, "");
}

/** Digits and dots alone are a mistyped address. */
function isLegalName(name: string): boolean {
  return (
    name.length <= 253 && /[a-z_-]/.test(name) && name.split(".").every((label) => /^[a-z0-9_-]{1,63}$/.test(label))
  );
}
