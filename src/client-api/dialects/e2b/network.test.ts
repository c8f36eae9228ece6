import { expect, it } from "vitest";
import type { Sandbox } from "../../../api/kinds/sandbox.ts";
import { clientNetworkAnnotation, egressAnnotations, networkView, trafficAnnotations } from "./network.ts";

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

it("allows the DNS servers where a name is allowed, as E2B does", () => {
  const closed = { denyOut: ["0.0.0.0/0"], dnsServers: ["192.0.2.53"] };
  const denied = { default: "deny", deny: [] };
  expect(rulesOf({ ...closed, allowOut: ["example.org"] })).toEqual({
    ...denied,
    allow: ["example.org", "192.0.2.53"],
  });
  expect(rulesOf({ ...closed, allowOut: ["192.0.2.1"] })).toEqual({ ...denied, allow: ["192.0.2.1"] });
  expect(rulesOf({ dnsServers: ["192.0.2.53"] })).toBeUndefined();
});

it.each([
  [{ allowOut: ["example.org"] }, "is a name"],
  [{ denyOut: ["example.org"] }, "not an address or a range"],
  [{ denyOut: ["192.0.2.0/24"], allowOut: ["192.0.2.1"] }, "inside a range of denyOut"],
  [{ denyOut: ["0.0.0.0/0"], allowOut: ["not a host"] }, "is not a rule"],
])("rejects %j, naming the field", (network, why) => {
  expect(() => rulesOf(network)).toThrow(why);
});

it("opens ports to everyone unless the client closes them", () => {
  expect(trafficAnnotations({})).toEqual({ "ramet.dev/public-ports": "*" });
  expect(trafficAnnotations({ allowPublicTraffic: false, httpsPorts: [8443, 8443, 443] })).toEqual({
    "ramet.dev/https-ports": "8443,443",
  });
});

it.each(["a b", "host\r\nX-Injected: 1", "${PORT", "host:port", "", "-", "a".repeat(300)])(
  "accepts only a host name as the host of requests, not %j",
  (maskRequestHost) => {
    const annotations = () => trafficAnnotations({ maskRequestHost });
    if (maskRequestHost === "") expect(annotations()).not.toHaveProperty(["ramet.dev/request-host"]);
    else expect(annotations).toThrow("network.maskRequestHost is not a host name");
  },
);

it("returns the settings that a client has sent, without values of credentials", () => {
  const network = {
    allowPublicTraffic: false,
    allowOut: ["api.example.org"],
    denyOut: ["0.0.0.0/0"],
    maskRequestHost: "inner.example:${PORT}",
    httpsPorts: [8443],
    egressProxy: { address: "proxy.example:1080", username: "user", password: "s3cr3t" },
    rules: { "api.example.org": [{ transform: { headers: { "X-Key": "s3cr3t" } } }] },
  };
  const request = { network, allow_internet_access: true };
  const annotations = {
    ...egressAnnotations(request),
    ...trafficAnnotations(network),
    ...clientNetworkAnnotation(request),
  };
  expect(JSON.stringify(annotations)).not.toContain("s3cr3t");
  expect(networkView({ metadata: { annotations } } as unknown as Sandbox)).toEqual({
    allowInternetAccess: true,
    network: {
      allowPublicTraffic: false,
      allowOut: ["api.example.org", "proxy.example:1080"],
      denyOut: ["0.0.0.0/0"],
      maskRequestHost: "inner.example:${PORT}",
      httpsPorts: [8443],
      egressProxy: { address: "proxy.example:1080" },
      rules: { "api.example.org": [{}] },
    },
  });
});

it("shows the settings of a sandbox whose annotations somebody has changed", () => {
  const annotations = { "ramet.dev/client-network": "{", "ramet.dev/egress": "[]", "ramet.dev/https-ports": "x" };
  expect(networkView({ metadata: { annotations } } as unknown as Sandbox)).toEqual({
    network: { allowPublicTraffic: false },
  });
});
