import { expect, it } from "vitest";
import { originReader } from "./client-origin.ts";

const origin = (trusted: string[], remoteAddress: string, forwarded?: string) =>
  originReader(trusted)({
    socket: { remoteAddress },
    headers: forwarded === undefined ? {} : { "x-forwarded-for": forwarded },
  });

it("finds the client behind trusted proxies, and believes nobody else", () => {
  const trusted = ["10.0.0.0/8", "fd00::/8"];
  const client = (from: string, forwarded?: string) => origin(trusted, from, forwarded).address;
  expect(client("10.1.2.3", "192.0.2.1")).toBe("192.0.2.1");
  expect(client("10.1.2.3", "203.0.113.9, 192.0.2.1, 10.9.9.9")).toBe("192.0.2.1");
  expect(client("10.1.2.3", "192.0.2.1:4711")).toBe("192.0.2.1");
  expect(client("::ffff:10.1.2.3", "192.0.2.1")).toBe("192.0.2.1");
  expect(client("fd00::1", "2001:db8:1:2:3:4:5:6")).toBe("2001:db8:1:2::/64");
  expect(client("198.51.100.1", "192.0.2.1")).toBe("198.51.100.1");
  // The header names no client, so the proxy itself counts.
  for (const bad of [undefined, "", "unknown", "192.0.2.1, made-up", "10.1.1.1"]) {
    expect(client("10.1.2.3", bad)).toBe("10.1.2.3");
  }
});

it("passes X-Forwarded-For on from trusted proxies, or from everyone if none are configured", () => {
  expect(origin([], "192.0.2.1", "203.0.113.9")).toMatchObject({
    address: "192.0.2.1",
    isProxied: false,
    forwardedFor: "203.0.113.9, 192.0.2.1",
  });
  expect(origin(["10.0.0.0/8"], "192.0.2.1", "203.0.113.9")).toMatchObject({ forwardedFor: "192.0.2.1" });
  expect(origin(["10.0.0.0/8"], "10.0.0.1", "203.0.113.9")).toMatchObject({
    isProxied: true,
    forwardedFor: "203.0.113.9, 10.0.0.1",
  });
});

it("counts IPv6 clients by their network of 64 bits, however the address is written", () => {
  const networks = ["2001:db8::1", "2001:0db8:0:0:ffff::", "2001:DB8:0000::2:3"].map(
    (from) => origin([], from).address,
  );
  expect(new Set(networks)).toEqual(new Set(["2001:db8:0:0::/64"]));
  expect(origin([], "::1").address).toBe("0:0:0:0::/64");
  expect(origin([], "fe80::1%eth0").address).toBe("fe80:0:0:0::/64");
  expect(origin([], "::ffff:192.0.2.1").address).toBe("192.0.2.1");
});
