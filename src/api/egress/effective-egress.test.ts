import fc from "fast-check";
import { expect, it } from "vitest";
import { specialAddresses } from "../../base/special-addresses.ts";
import type { EgressPolicy } from "../wire/cell-api.ts";
import { effectiveEgress, egressDigest, type EgressHolder, parseRuntimeEgress } from "./effective-egress.ts";
import {
  coversRule,
  type EgressRules,
  namesInside,
  namesMetadata,
  parseEgressRule,
  type EgressRule,
} from "./egress-rules.ts";

const clusterRanges = ["10.0.0.0/8"];
const texts = fc.constantFrom(
  "*",
  "*:443",
  "0.0.0.0/0",
  "93.0.0.0/8",
  "93.184.215.14",
  "93.184.215.14:443",
  "10.0.0.0/8",
  "10.20.0.0/16",
  "10.20.9.0/24",
  "10.20.9.1:443",
  "127.0.0.1",
  "169.254.169.254",
  "example.org",
  "*.example.org:443",
  "*.example.org",
  "a.example.org:443",
  "*.a.example.org",
);
const rules = fc.record(
  {
    default: fc.constantFrom("allow" as const, "deny" as const),
    allow: fc.array(texts, { maxLength: 4 }),
    deny: fc.array(texts, { maxLength: 2 }),
  },
  { requiredKeys: [] },
);
const annotation = fc.oneof(
  { weight: 8, arbitrary: rules.map((value) => JSON.stringify(value)) },
  { weight: 1, arbitrary: fc.constantFrom("", "[]", '{"allow":["10.0.0.0/33"]}', "{", '{"open":true}') },
);
const holders: fc.Arbitrary<EgressHolder | undefined> = fc.option(
  fc.record(
    {
      annotations: fc.record({ "ramet.dev/egress": annotation }),
      labels: fc.record({ "agents.kruise.io/allow-internet-access": fc.constantFrom("true", "false", "no") }),
    },
    { requiredKeys: [] },
  ),
  { nil: undefined },
);
const connections = fc.record({
  address: fc.constantFrom(
    "93.184.215.14",
    "93.1.1.1",
    "8.8.8.8",
    "10.20.9.1",
    "10.20.1.1",
    "10.1.1.1",
    "127.0.0.1",
    "169.254.169.254",
  ),
  port: fc.constantFrom(80, 443),
  names: fc.subarray(["example.org", "a.example.org", "b.a.example.org", "evil.org"], { maxLength: 2 }),
});
interface Connection {
  address: string;
  port: number;
  names: string[];
}

it("allows no connection that the levels above deny", () => {
  fc.assert(
    fc.property(rules, fc.tuple(holders, holders, holders), connections, (runtime, levels, connection) => {
      const [namespace, template, sandbox] = levels;
      const all = { rules: runtime, clusterRanges };
      const narrowing = [
        effectiveEgress(all, undefined, undefined, undefined),
        effectiveEgress(all, namespace, undefined, undefined),
        effectiveEgress(all, namespace, template, undefined),
        effectiveEgress(all, namespace, template, sandbox),
      ].map(({ policy }) => isAllowed(policy, connection));
      expect(narrowing).toEqual(narrowing.toSorted((a, b) => Number(b) - Number(a)));
    }),
    { numRuns: 500 },
  );
});

it("allows every connection that a rule names and no level denies, unless it reports a problem", () => {
  const wide = fc.constantFrom<Partial<EgressRules>>(
    {},
    { default: "deny", allow: ["*"] },
    { default: "deny", allow: ["93.0.0.0/8", "*.example.org"] },
    { deny: ["93.1.0.0/16"] },
  );
  const own = fc.constantFrom("93.0.0.0/8", "93.184.215.14:443", "*.example.org:443", "a.example.org", "8.8.8.8");
  fc.assert(
    fc.property(wide, wide, own, connections, (runtime, template, rule, connection) => {
      const levels = [template, { default: "deny", allow: [rule] }].map(meta);
      const { policy, problem } = effectiveEgress({ rules: runtime, clusterRanges }, undefined, levels[0], levels[1]);
      const denied = [runtime, template].flatMap(({ deny = [] }) => deny);
      const isNamed = matches(parsed(rule), connection) && !isClosed(connection);
      if (problem !== undefined || !isNamed || denied.some((text) => matches(parsed(text), connection))) return;
      expect(isAllowed(policy, connection)).toBe(true);
    }),
    { numRuns: 1_000 },
  );
});

const meta = (value: unknown): EgressHolder => ({ annotations: { "ramet.dev/egress": JSON.stringify(value) } });

it.each([
  [
    {},
    meta({ allow: ["10.0.0.5"] }),
    "metadata.annotations[ramet.dev/egress].allow[0]: 10.0.0.5 is in 10.0.0.0/8, and the runtime's egress does not open it",
  ],
  [
    {},
    meta({ allow: ["127.0.0.1:80"] }),
    "metadata.annotations[ramet.dev/egress].allow[0]: 127.0.0.1:80 is in 127.0.0.0/8",
  ],
  [
    {},
    meta({ allow: ["db.team-a.svc.cluster.local"] }),
    "allow[0]: db.team-a.svc.cluster.local is in cluster.local, and the runtime's egress does not open it",
  ],
  [
    { allow: ["*"] },
    meta({ allow: ["metadata.google.internal"] }),
    "allow[0]: metadata.google.internal is in internal, and the runtime's egress does not open it",
  ],
  [
    {},
    meta({ allow: ["*", "169.254.169.254"] }),
    "metadata.annotations[ramet.dev/egress].allow[1]: 169.254.169.254 is an address of metadata",
  ],
  [
    { default: "deny", allow: ["*.example.org"] },
    meta({ allow: ["a.example.org", "evil.org"] }),
    "allow[1]: the runtime's egress does not allow evil.org",
  ],
  [
    { default: "deny" },
    meta({ default: "allow" }),
    "metadata.annotations[ramet.dev/egress].default: the runtime's egress denies what no rule allows",
  ],
  [
    { deny: ["*.evil.org"] },
    meta({ allow: ["a.evil.org:443"] }),
    "allow[0]: the runtime's egress denies a.evil.org:443",
  ],
  [
    {},
    meta({ allow: ["10.0.0.0/33"] }),
    'metadata.annotations[ramet.dev/egress].allow[0]: "10.0.0.0/33" is not a rule',
  ],
  [{}, meta({ open: true }), "metadata.annotations[ramet.dev/egress]: Unrecognized key"],
  [{}, { annotations: { "ramet.dev/egress": "{" } }, "metadata.annotations[ramet.dev/egress]: "],
  [{}, { annotations: { "ramet.dev/egress": "x".repeat(20_000) } }, "it is longer than 16384 characters"],
  [
    {},
    { labels: { "agents.kruise.io/allow-internet-access": "no" } },
    'metadata.labels[agents.kruise.io/allow-internet-access]: it is "no", not true or false',
  ],
] as const)("reports what cannot be honoured within %j: %j", (runtime, sandbox, message) => {
  const { problem } = effectiveEgress({ rules: runtime as never, clusterRanges }, undefined, undefined, sandbox);
  expect(problem).toMatchObject({ code: "InvalidArgument", message: expect.stringContaining(message) as string });
});

it("names the level that does not allow a rule", () => {
  const problemOf = (...levels: [EgressHolder?, EgressHolder?, EgressHolder?]) =>
    effectiveEgress({}, levels[0], levels[1], levels[2]).problem?.message;
  const narrow = meta({ default: "deny", allow: ["example.org"] });
  const wide = meta({ allow: ["evil.org"] });
  expect(problemOf(narrow, wide)).toContain(
    "spec.template.metadata.annotations[ramet.dev/egress].allow[0]: the namespace's metadata.annotations[ramet.dev/egress] does not allow evil.org",
  );
  expect(problemOf(undefined, narrow, wide)).toContain(
    "spec.template.metadata.annotations[ramet.dev/egress] does not allow",
  );
  expect(problemOf(narrow, narrow, narrow)).toBeUndefined();
});

it("denies everything for allow-internet-access: false, and for rules that cannot be read", () => {
  const isOpen = (sandbox: EgressHolder) =>
    isAllowed(effectiveEgress({}, undefined, undefined, sandbox).policy, { address: "8.8.8.8", port: 443, names: [] });
  const access = "agents.kruise.io/allow-internet-access";
  expect(isOpen({ labels: { [access]: "true" } })).toBe(true);
  expect(isOpen({ labels: { [access]: "false" } })).toBe(false);
  expect(isOpen({ annotations: { [access]: "false" } })).toBe(false);
  expect(isOpen({ annotations: { "ramet.dev/egress": "}" } })).toBe(false);
});

it("reads YAML", () => {
  const text = "default: deny\nallow:\n  - '*.example.org:443'\n";
  const { policy, problem } = effectiveEgress({}, undefined, undefined, { annotations: { "ramet.dev/egress": text } });
  expect(problem).toBeUndefined();
  expect(policy.narrowedBy).toEqual([{ default: "deny", allow: ["*.example.org:443"], deny: [] }]);
});

it("has one policy and one digest for no rules at any level", () => {
  const { policy } = effectiveEgress({}, {}, { annotations: { other: "x" } }, { labels: { a: "b" } });
  expect(policy).toEqual({ default: "allow", allow: [], deny: [] });
  expect(egressDigest(policy)).toMatch(/^[0-9a-f]{16}$/);
  expect(egressDigest(effectiveEgress({}, {}, {}, meta({})).policy)).not.toBe(egressDigest(policy));
});

it("lets only the runtime and a namespace open the address of EKS Pod Identity, by its address", () => {
  const to = { address: "169.254.170.23", port: 80, names: [] };
  const opening = (text: string) => ({ annotations: { "ramet.dev/egress": JSON.stringify({ allow: [text] }) } });
  const decide = (...levels: Parameters<typeof effectiveEgress>) => {
    const { policy, problem } = effectiveEgress(...levels);
    return [isAllowed(policy, to), problem?.message.replace(/^.*?: /, "")];
  };
  const one = "169.254.170.23:80";
  expect(decide({}, undefined, undefined, undefined)).toEqual([false, undefined]);
  expect(decide({ rules: { allow: ["*", "169.254.0.0/16"] } }, undefined, undefined, undefined)).toEqual([
    false,
    undefined,
  ]);
  expect(decide({ rules: { allow: [one] } }, undefined, undefined, undefined)).toEqual([true, undefined]);
  expect(decide({}, opening(one), undefined, opening(one))).toEqual([true, undefined]);
  expect(decide({ rules: { deny: ["169.254.0.0/16"] } }, opening(one), undefined, undefined)[0]).toBe(false);
  expect(decide({ rules: { default: "deny" } }, opening(one), undefined, undefined)[0]).toBe(false);
  const why = `${one} is in 169.254.170.23/32, and the runtime's egress does not open it`;
  expect(decide({}, undefined, opening(one), undefined)).toEqual([false, expect.stringContaining(why)]);
  expect(decide({}, undefined, undefined, opening(one))).toEqual([false, expect.stringContaining(why)]);
  const metadata = effectiveEgress({}, opening("169.254.169.254"), undefined, undefined);
  expect(metadata.problem?.message).toContain("169.254.169.254 is an address of metadata services");
  expect(isAllowed(metadata.policy, { ...to, address: "169.254.169.254" })).toBe(false);
});

it("names the invalid field of the runtime", () => {
  const names = { default: "--egress-default", allow: "--egress-allow", deny: "--egress-deny" };
  const parse = (given: unknown) => () => parseRuntimeEgress(given, names);
  expect(parse({ allow: ["10.0.0.1"] })()).toEqual({ allow: ["10.0.0.1"], deny: [] });
  expect(parse({ default: "maybe" })).toThrow("--egress-default: ");
  expect(parse({ deny: ["a b"] })).toThrow('--egress-deny[0]: "a b" is not a rule');
  expect(parse({ allow: ["168.63.129.16"] })).toThrow("--egress-allow[0]: 168.63.129.16 is an address of metadata");
});

/** A model of link's decision. `TestConnection` of native/link/internal/policy has the same cases for link itself. */
function isAllowed({ narrowedBy = [], ...top }: EgressPolicy, connection: Connection): boolean {
  const to = address(connection.address);
  if (namesMetadata(to)) return false;
  const { reserved, podIdentity } = specialAddresses;
  const closed = [...reserved, ...podIdentity, ...clusterRanges].filter((range) => namesInside(to, [range]));
  return [top, ...narrowedBy].every(({ default: fallback, allow, deny }, at) => {
    if (deny.some((text) => matches(parsed(text), connection))) return false;
    const matching = allow.map(parsed).filter((rule) => matches(rule, connection));
    if (at === 0 && closed.length > 0)
      return matching.some((rule) => namesInside(rule, closed) && coversRule(rule, { ...to, port: connection.port }));
    return fallback === "allow" || matching.length > 0;
  });
}

function matches(rule: EgressRule, { address: to, port, names }: Connection): boolean {
  const ways = [{ ...address(to), port }, ...names.map((name) => ({ ...parsed(name), port }))];
  return ways.some((way) => coversRule(rule, way));
}

function isClosed({ address: to }: Connection): boolean {
  return namesInside(address(to), [...Object.values(specialAddresses).flat(), ...clusterRanges]);
}

function address(text: string): EgressRule {
  return parsed(text);
}

function parsed(text: string): EgressRule {
  const rule = parseEgressRule(text);
  if (typeof rule === "string") throw new Error(rule);
  return rule;
}
