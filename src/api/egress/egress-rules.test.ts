import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { coversRule, type EgressRule, EgressRules, namesInside, parseEgressRule } from "./egress-rules.ts";

/** Link's tests read the same file. */
const texts = JSON.parse(
  readFileSync(new URL("../../../native/link/internal/policy/testdata/rules.json", import.meta.url), "utf8"),
) as { valid: string[]; invalid: string[] };

it.each(texts.valid)("accepts the rule %j", (text) => {
  expect(parseEgressRule(text)).toBeTypeOf("object");
});

it.each(texts.invalid)("rejects the rule %j", (text) => {
  expect(parseEgressRule(text)).toBeTypeOf("string");
});

it.each([
  ["*", "example.org:443", true],
  ["*:443", "example.org:443", true],
  ["*:443", "example.org", false],
  ["10.0.0.0/8", "10.1.2.3:80", true],
  ["10.1.2.3", "10.0.0.0/8", false],
  ["10.0.0.0/8", "*", false],
  ["10.0.0.0/8", "example.org", false],
  ["*.example.org", "a.b.example.org", true],
  ["*.example.org", "*.a.example.org:443", true],
  ["*.example.org", "*.example.org", true],
  ["*.example.org", "example.org", false],
  ["*.example.org", "evilexample.org", false],
  ["example.org", "Example.org.", true],
  ["example.org", "*.example.org", false],
  ["example.org", "93.184.215.14", false],
  ["0.0.0.0/0", "255.255.255.255", true],
])("knows whether %s covers %s", (outer, inner, covers) => {
  expect(coversRule(rule(outer), rule(inner))).toBe(covers);
});

it("knows which rules name an address inside a range", () => {
  const isInside = (text: string) => namesInside(rule(text), ["10.96.0.0/12"]);
  expect(["10.96.0.1:443", "10.111.0.0/16", "10.96.0.0/12"].every(isInside)).toBe(true);
  expect(["10.0.0.0/8", "10.112.0.1", "*", "example.org"].some(isInside)).toBe(false);
});

it("names the invalid rule", () => {
  const { error } = EgressRules.safeParse({ deny: ["10.0.0.1", "10.0.0.0/33"] });
  expect(error?.issues).toMatchObject([
    { path: ["deny", 1], message: '"10.0.0.0/33" is not a rule: it is not an IPv4 address, range or name' },
  ]);
});

function rule(text: string): EgressRule {
  const parsed = parseEgressRule(text);
  if (typeof parsed === "string") throw new Error(parsed);
  return parsed;
}

it("limits the rules of a level", () => {
  const some = (length: number) => Array.from({ length }, (_, at) => `10.0.${Math.floor(at / 250)}.${at % 250}`);
  expect(EgressRules.safeParse({ allow: some(200), deny: some(56) }).success).toBe(true);
  const { error } = EgressRules.safeParse({ allow: some(57), deny: some(200) });
  expect(error?.issues).toMatchObject([
    { path: ["deny"], message: "it has 257 rules with those of allow, and a level can have 256" },
  ]);
});
