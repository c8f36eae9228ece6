import { expect, it } from "vitest";
import { egressAnnotations } from "./network.ts";

const rulesOf = (network: Record<string, unknown>) => {
  const { "ramet.dev/egress": text } = egressAnnotations({ network });
  return text === undefined ? undefined : (JSON.parse(text) as object);
};

it("requests no rules without a restriction", () => {
  expect(egressAnnotations({})).toEqual({});
  expect(egressAnnotations({ network: { allowPublicTraffic: false }, allow_internet_access: true })).toEqual({});
});

it("denies everything but allowed destinations without internet access", () => {
  const denied = { default: "deny", allow: [], deny: [] };
  expect(egressAnnotations({ allow_internet_access: false })).toEqual({ "ramet.dev/egress": JSON.stringify(denied) });
  expect(egressAnnotations({ allow_internet_access: false, network: { allowOut: ["example.org"] } })).toEqual({
    "ramet.dev/egress": JSON.stringify({ ...denied, allow: ["example.org"] }),
  });
});

it("translates allowed and denied destinations", () => {
  expect(rulesOf({ denyOut: ["0.0.0.0/0"], allowOut: ["example.org", "*.example.org", "192.0.2.1"] })).toEqual({
    default: "deny",
    allow: ["example.org", "*.example.org", "192.0.2.1"],
    deny: [],
  });
  expect(rulesOf({ denyOut: ["192.0.2.0/24"] })).toEqual({ default: "allow", allow: [], deny: ["192.0.2.0/24"] });
});

it.each([
  [{ allowOut: ["example.org"] }, "is a name"],
  [{ denyOut: ["example.org"] }, "not an address or a range"],
  [{ denyOut: ["192.0.2.0/24"], allowOut: ["192.0.2.1"] }, "inside a range of denyOut"],
  [{ denyOut: ["0.0.0.0/0"], allowOut: ["not a host"] }, "is not a rule"],
  [{ dnsServers: ["192.0.2.53"] }, "network.dnsServers is not supported"],
])("rejects %j, naming the field", (network, why) => {
  expect(() => rulesOf(network)).toThrow(why);
});
