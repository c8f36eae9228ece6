import * as fc from "fast-check";
import { expect, it } from "vitest";
import { annotations } from "../../../api/names/labels.ts";
import { Sandbox } from "../../../api/kinds/sandbox.ts";
import { apiVersion } from "../../../api/schema/kind.ts";
import { RametError } from "../../../base/errors.ts";
import { egressAnnotation, networkView } from "./network-routes.ts";
import { Network } from "./schemas.ts";

function rulesOf(policy: unknown): unknown {
  const text = egressAnnotation(Network.parse(policy));
  return text === undefined ? undefined : JSON.parse(text);
}

it.each([
  ["everything", { mode: "allow-all" }, undefined],
  ["nothing", { mode: "block-all" }, { default: "deny", allow: [], deny: [] }],
  [
    "only some domains, and ignores the list of another mode",
    {
      mode: "block-all",
      egress: { allowedDomains: ["a.example.com", "*.b.example.com"], deniedCidrs: ["1.1.1.1/32"] },
    },
    { default: "deny", allow: ["a.example.com", "*.b.example.com"], deny: [] },
  ],
  [
    "only ports of some ranges",
    {
      mode: "block-all",
      egress: { allowedCidrs: ["192.0.2.0/24"], allowedPorts: [{ port: 443 }, { port: 22, protocol: "TCP" }] },
    },
    { default: "deny", allow: ["192.0.2.0/24:443", "192.0.2.0/24:22"], deny: [] },
  ],
  [
    "all but some destinations",
    {
      mode: "allow-all",
      egress: { deniedCidrs: ["192.0.2.0/24"], deniedDomains: ["x.example.com"], deniedPorts: [{ port: 25 }] },
    },
    { default: "allow", allow: [], deny: ["192.0.2.0/24", "x.example.com", "*:25"] },
  ],
  [
    "by rules, of which those that deny come first",
    {
      mode: "block-all",
      egress: {
        allowedDomains: ["ignored.example.com"],
        trafficRules: [
          { action: "deny", cidrs: ["192.0.2.7"] },
          { action: "allow", cidrs: ["192.0.2.0/24"], ports: [{ port: 443 }] },
        ],
      },
    },
    { default: "deny", allow: ["192.0.2.0/24:443"], deny: ["192.0.2.7"] },
  ],
])("allows %s", (_, policy, rules) => {
  expect(rulesOf(policy)).toEqual(rules);
});

const allow = { action: "allow", cidrs: ["192.0.2.7"] };
const deny = { action: "deny", cidrs: ["192.0.2.0/24"] };
it.each([
  ["an exception from a rule", { trafficRules: [allow, deny] }, "NotSupported", /denies after one that allows/],
  [
    "addresses and domains in one rule",
    { allowedCidrs: ["192.0.2.7"], allowedDomains: ["a.example.com"] },
    "NotSupported",
    /one rule/,
  ],
  ["a range of ports", { allowedPorts: [{ port: 1, endPort: 9 }] }, "NotSupported", /range of ports/],
  ["UDP", { allowedPorts: [{ port: 53, protocol: "udp" }] }, "NotSupported", /udp/],
  ["protocols", { trafficRules: [{ ...allow, appProtocols: ["tls"] }] }, "NotSupported", /appProtocols/],
  ["a proxy", { proxy: { type: "socks5", address: "a:1" } }, "NotSupported", /proxy/],
  ["credentials", { credentialRules: [{}] }, "NotSupported", /credentialRules/],
  ["IPv6", { allowedCidrs: ["2001:db8::/32"] }, "InvalidArgument", /is not a rule/],
])("refuses %s, with a reason", (_, egress, code, message) => {
  const policy = Network.parse({ mode: "block-all", egress });
  let thrown: unknown;
  try {
    egressAnnotation(policy);
  } catch (error) {
    thrown = error;
  }
  expect(thrown).toBeInstanceOf(RametError);
  expect(thrown).toMatchObject({ code, message: expect.stringMatching(message) as unknown });
});

const destination = fc.record({
  host: fc.constantFrom("192.0.2.7", "192.0.2.0/24", "a.example.com", "*.example.com", "*"),
  port: fc.option(fc.integer({ min: 1, max: 65_535 })),
});
const texts = fc
  .array(destination, { maxLength: 4 })
  .map((all) => all.map(({ host, port }) => (port === null ? host : `${host}:${port}`)));

it("shows rules so that a client can send them back", () => {
  fc.assert(
    fc.property(fc.constantFrom("allow", "deny"), texts, texts, (otherwise, allowed, denied) => {
      const rules = { default: otherwise, allow: otherwise === "allow" ? [] : allowed, deny: denied };
      const view = networkView(sandboxWith(JSON.stringify(rules)));
      expect(Network.parse(view)).toEqual(view);
      expect(rulesOf(view)).toEqual(otherwise === "allow" && denied.length === 0 ? undefined : rules);
    }),
  );
  expect(networkView(sandboxWith("{no"))).toEqual({ mode: "allow-all" });
});

function sandboxWith(egress: string): Sandbox {
  const metadata = {
    namespace: "team-a",
    name: "dev",
    uid: "1",
    resourceVersion: "1",
    creationTimestamp: "2026-01-01T00:00:00Z",
  };
  return Sandbox.parse({
    apiVersion,
    kind: "Sandbox",
    metadata: { ...metadata, annotations: { [annotations.egress]: egress } },
    spec: {},
  });
}
